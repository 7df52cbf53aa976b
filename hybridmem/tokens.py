"""Counting tokens, and cutting text to a number of them. Pure.

:func:`token_counter` gives the real o200k tokenizer if the optional package ``bpe-openai`` is installed, else
:class:`EstimatedCounter`, which needs nothing. The estimate is made to err upwards, so that a budget holds for the real
tokenizer too. Its tables were measured on o200k:

- outside ASCII each character has a price, its token count alone (merging only makes a text cheaper);
- 1,100 common English words cost one token; any other run of letters costs the sum of the prices of its letter pairs,
  which a linear programme made as small as possible on real text while staying above the true count for 80,000
  real, glued and random words;
- up to three digits, and the usual clusters of punctuation, cost one.
"""

from __future__ import annotations

import base64
import re
import unicodedata
import zlib
from functools import lru_cache
from itertools import pairwise
from typing import Any

from hybridmem.ports import TokenCounter

#: Stands at the end of a text that was cut.
MARK = "…"

_PRICES = (
    "c-rk-OOE6?4z&SmZvo~d`V=-G?nQt)#MF(ZcT<>7MCK`nq$FE%IPz1Uo-R}xRY*tJmMHR(e54$lQgTdb=#I5HpXV9o(SwKRF^plMAr0d|v-f@&<Z"
    "%dzQk1`(?7(z)4BaQc_<Ta=`(y}v8sq*Xt~M;d{oQs1W|MM=B2*T>y}S*K!|9OwruLo*Mwr2m!{~}&G5HiBL35MLKE`2S(ap5NHtwSxV(}1d+$x6"
    "43SpIgEZ^B5wtJY<C~~i}-&AB#F}X0iWesKZ!w|RhoyYUb<HN2!ed#~<$G^sLh1rCjL~)`3KZ|sWEku_$j#L&m4Z+1}fJGNGCnwU2{&0-2jA5Sj`"
    "W8iXONNU4(`7oj4&yZI^V1kz9$zmE88l7-GcJAz>*S)7yH(+bWky1zZ3151Fh{q#sl$oP@6w3!d>P+Ou|=rNZ=fF9>zg@6eIBQAom75VkzS``cDJ"
    "I;MvO}k{LIrpLqrf!cl>VCFwPmE`h1dME{sZ#9H(1qci<y?Kbsw^E!P1-y_pDx!I@+G=3!YS1ILrMmP0l0^7irc=LM|lS^CMx%Qqa)_U}uN_#XUE"
    "`o;6}g-1NSJb!e)znb$uAGqQ1>G@ib4;*xzH}RCgoGxYi&SA3H@k9K-DC5!b<<E<CJimPN@$||F$M}D}yrsntK;iY{0p6ZFpgbJ<-!HodXBQ{$!M"
    ">5OM%4M-JV*qQ93<gl)*LnaSwbD>1kxS#GmH1OYWpH{?y;f#cO)alby$PMw>0iUEq7rAxlPE>{*{~X6mMb{jPJ91ADUR7O&c~+mjU2M`1^;gzU!O"
    "cH(yyBx6;Oji!d)~G{)fAIpHl1TsOehs6&(yYQ*2%_4-c!uQO$0#n&K6J(YTDfT^B+`^EkL%Ko?i{C)oae7*j6`~Q1pd@kPm9(k_sI{g1G{|iT7*"
    "8?rvG!2E0jFp)v633~q{i)LEVTJ(lo{j)!hP>P3>qqkcM{V|8*Zkn}8UMdq{+D$;T{zJ0|DXB)_xAsf>Eh{uJ-(g)Hz&{EVzamW|99vApZ@>P_Wv"
    "1%4MK=%4HSZ$(;Rq-KB6{BgjVA`ZP6i3e#L|k$!)O41Q8h>NR5D=VD%h?2Ff99a$Lv@>$Elm$RnDRY1VF)eC3pIgVh#DMm>SHL_o%1QAW|ngzIa<"
    "oKj)3WK0$^$@K@jrG{r(+6TYRwCWswj`Og@v;|p;7r_!wQrj?+mKGF)e3>R<C+r^v;^?JbnM7R7b<eT^?wuTPq9EbXl%*r`$ff+ydt4Q0OhQVW8$"
    "wz|*m)6kY+hyyVC9RD6PJdSCQh)rWpdhPTG#01Yqu<kXSpjFc}DpU1o7xOhO%PL8rhJrr`lNx#H^(aj{+xI2L+Ss%AZm)5bmeEmsNaU)paBbrG%G"
    "dpi~cwOsS^fq-OyHBjAWiK?bM(kgD&P=O{kNj8e{-cbN=5Kzn^gaL8a95wOWx7laXsH~Cts(kTxJQzX<@URITYA}Jnc#=1VRayKo!b2O|4<)NWQV"
    "S?4F7)lSC#A3z>5Dc@)`*}$ahJi&ffkrVSI~7FqmT;Ja?~WAE3Ta9~z~K~AsJ=pVbZagXL1PoDrag7q-tzxSvuPCLiO-FqY}VOCfeQ+@=va~qi@+"
    "HHW-+b!dfO<lQ}G?a0Ej192}pk1frzL*ch4~{tmr2(5=c;hO;;APGn1Jd1x4yn)!K%1R7>MNA1q>REO1q?*S;X^W`U+1uw)CuHG=VEFKvFW3J1Y!"
    "m=;CLCOVN3MRp{o&L^h<qXjLACq$wbSxMB0HA%p<5j|yS7vq2-$O2$wJ=uJbU)B|J*r3F_Dnl+=P-9;4Xxbfe%RW<}r%?&d{nZ?)&^vLSMWU&ihF"
    "O~+Is6(FC8$P0k-20TW7IY4vaQ=qta}Rqt@neudlS&~NUj8uL!mKmZNzCwGpVvf@L6FyiO#eEPcmLqD5$3a#$9HaYtg=ph~(K!2V_uCmyZ&T*#ew"
    "_ANMAdT+SF%jo|L2djR8$4v!ip;$1fa+K+@Ki2FV)HnH)lK5Xm%e9K_g*Pxd(*|>@g7RVa}jij=k5hJvHbI^=r2o_W;o-}A$|4MA_lbT80MlIvPV"
    "w@;!BaOE@9ORmpR4WqcByAb=Q4+wCO$8SBV$Nqp9r_%Z53=brCY6GZR@>fxuW{zkkA)}8sD^V3OW4MF<pBoUGeBR@Dt(?1uQO28Orq!O9=AoUog<"
    "eBU)qs$G!P3fXk|#v4oT}rag-TBW%p)>Q><8a2t!Sfwoc3)Fo*YxlP{K>bE@ChfL5BB2zUqrd@mJTx6~N0y(=tEt`2@GQH9KDx!jX;rZq-F@~`aK"
    "<lCER+?uA7OcIBMx`43~$sD9%<=9*08q)mz(7kp@^O*$OgW4RdBda~^xoW?ROph9jRk$pvWE8H<5gNDNqVY|JtZwteic|C!LmQ(@?xTzrI=(eq>X"
    "x)+waiy`?Aa(v_bMv65{DAX80d0`j4n<yccKg*PKU*};|^hVV)0FaxSB-6WVV6&L#2SQXU;;LOjtgv5nElK?G_v^&I?nW*n5hzsEv&B*?=Wqam{c"
    "x6qZ?wXJ&KQT|2u3mZZT9E!K4f0nIfmf0C_SG8g0smo$-v%+=V|L^ZRPQ7cH6lDV2y67QOmplUQz##k&!GaqQlq#qFRu!(pw=Tu*kGMzoC=pk5<Q"
    "mHRtCI%9-VV8xo9ris6$^kXg0!;?K1IgX~D_!r<UhvYoU_@>K{7N9kNLllzEuh+8?N*JCozX5z3I6r9{i<_uYIH%@-&iX9R(71tyisT)x0Zgm0WF"
    "n-45n5D%TS~*FW|0x4Ke{MuktnVQ8L448z@D!T_PzN)uwQ<w+$!v<s3+JBF-F+<0x~v7*^%FB%IgNGD);p^tzEN!xdJGW0NX0i$`Nl#aAi;tV;6Z"
    "An=@{vX4cbHOP%Tq)Ofr9RF2m-qcKOin)H3<9^2tsj)j9TTPX5Q$^9F!A`@3S63F*u4!AzGe({V<wbIt2HYU<28&6sNHyU$sW+5BY7Dn*Y<^}Ifk"
    "S{~waS(K57L&al7y}NfCIfoJh(r9ldo`76hBtp<BhS0-$8p#xf{}vSGl4zT2)Ay{vD6iG%OnM_7(OPmg`{?N?kqNK<%_?v0Bw2o*-Fr)LGFn@5}^"
    "wwbYGHqnwngoB>c6Vo8Al?@$*1^76;i+5aK!Bn-xlYc8rgi7|0WB-?1yNVbiAqsR6zp_adVt;3CLOh!7W3BBVDmZHO$*%@0tV?Ji!hp1pP66240A"
    "LQ0YalXUW_xAtlihWII4L9b4I~586iUbK=-2xFBz*Q-+Ej1dYfA;@B`~RQ)|Ko@fOID(I8BFBbTwIHj-kIY5dJ1cQI5D>&t&bA+z}M3&7JZ$jx5R"
    "Ef-rt(xJzh2Yf44{Bs2+d3y8m~ROSjJdFH&LY4z*laC5xQ<3f$I+`vaL#=l6b?x<&-KKK}Om|EE~qN8c<TbNlL1nISH$tuMaHAF*@?65qx9Y?a<("
    "d10|r!JRy}PG80R?I>9mQT6SLZ`WmBVer4N`2U;l|8yMYQWKHv&zz3EoCbVQnw0jbgSSzg*8gvLz6N~pAt~bq(9L{eu^6<+n_m#S7nd7l*&p9tTh"
    "goV|Hym~{r}eaUyDzlR_%z|JL-4uk5y>omRhb7I}O%Sj<5Uwv5yc}tdo1rn?>RVe?NNv|Mtp2uMjL<O3_k%Td})FRJBy%M6abws@=fts(IIJFmgs"
    "ui(T#Rob&&A=%1PYZ@1?c?%#M!2JaZLAUWQ7+`v^!w&>2|sAxW(Gf5sLdq5k7smmlO8-VE;)5_MYto-HIQ~od4BDdkNi?qPkpuO{eD}8@SRisl8s"
    "H42|ecF0_{n7dV2x4kDDY`C0nrWW8wRc)NOx#DCvYvQYr4L9u|Gxl=J-`o}J2ftqp2B@tqeh<7`@e7O18_%2`Z0^aAM&L~&Rn(BS>o2&o3GygyMS"
    "9dF@b&B3%s2861S~4lk)+PZuRY0KJ~Z`@3|TOue0~Op!K+T>P0ZOjg1;O`w-h_nJ%8)ZWoZg-Rbifvx~)d@Ba>;$8UXnpg;0i|Nn&g|E&LCt^PkJ"
    "j?ef1ey#U^-~GdyZrkbT#D4n!XaDd2+5e-9{Pm0d{?C2K&s%}En#p0D7zW#wgA{z!-`(%Tb9%628vpM8|10lveUtxx->-v#FEl!*ckLry-}6!bU+"
    "tBT?)BGKfB5)M&Hs;t{@MQjKijWMhy"
)
_START = "iihefigjhhkighihkhehkkjkhk"
_PAIRS = (
    "8242860b542141d55221619735388a197658k2982da22496bk494a9427a13d41552da44238dk3797a7377a69g77cbda76b9d7d7k"
    "88627a2ea59373b86225b9937935c5436g29c5ca3kk2033ee66k85bk6d527aa6878ak8576acf8e3469074f3994952a23737k4k26"
    "7543361c9g544157a40096e3b36kk80b6a78k6bk46kkak6kkeke5888295b1ab47966k5181a7k4k55d64dac5i949d67fe7876ck2b"
    "446116ab4kk85645ka285ce62h5c52442e443645b88b3357ab4c6362791976422064813454557519711b121aa25e44k13354d04k"
    "fkbkkkkh6kk4ak3kk5cc1bd79k69b5294i4d548858e935769d479a9c5ba87aa96c788c448cak6b59883e8a5b665b68b747766729"
    "7336462k54412283a02197k6442dbb0k6k1kkakk5kk81a7hak2k05d70a792k743236k0089k2k5k6d665ek26fkgk9b49d62bkkg2k"
    "84962dcf8kc67767dd59fc9ef9855k0kb73kk2755akk0d0bk825"
)
_COMMON_WORDS = """
    a able about abstract access account action actions activities activity actually ad add added adding addition
    additional address adjust advance advanced after again against age agree air airport all allow allowed allows
    along already also alternative always am american an analysis and another answer any anything app append
    application applications apps are area areas args around art artists as ask assert assistant async at attention
    auth authentication authority available average avoid await away awesome b back bag balance base based basic be
    beautiful because bed been before behavior behind being best better between big birthday bit black blend blog
    blue board body bold book books bool both boundary box brand brands bread break bring brown budget buffer build
    building built business but by byte bytes c call called campaign can cannot canvas caption car card cards care
    career case category cause center cert certain challenge change changes char character characters check children
    choice choose chunk church city class classes classic clean clear click client clock close closed club cluster
    code codes coffee collection color colors com come comfort coming common communication community companies
    company compile complete completion complex component components concert condition conditions configuration
    connect connection connections cons consider console contact contacts content context continue control
    conversation cook cookie cookies cool copy core cost could country county coupon course cover cream create
    creating creative culture cup current customer customers d daily damage dance dark data date day days de deal
    decision decode decoder deep def default depending depth description design details develop development devices
    dia dict did diet difference different digest digital discover do documents does dog doing domain don done down
    download drive dry due during e each early easy economic education effective effects either elements else email
    employee empty encode encoding end energy ensure env environment era error especially essential even event
    events every everyone everything example examples exc excellent except exception exceptions exercise expenses
    experience experiment express extensions extra eye f face facebook false family fashion favorite feature
    features feedback feel festival few fi field fields figure file filename files fill film filter final find
    finding first fit fitness float flow flush focus follow following food for forget form format forms forward
    found fragment free fresh friend friendly friends from fruit full fun function future g game games gaming gear
    general generate get getting gift give given giving glass go goal going good google got government great group
    groups growth guide gym had hand handle handling hands happy hard has have having he head header headers health
    healthy hear heart heat help her here hey high hill his history hold home hook hooks hope host hotel hours house
    how however html http human i id idea ideas identify identity if ignore image images img impact import
    importance important in include included includes including increase individual industry info information
    ingredients init input instagram install instance instead insurance int interest interesting international into
    invalid is issues it item items iter iterator its jar job john join jon journal joy json just k keep keeping key
    keys kids kind know knowledge known la language large last lead leading learn learning least len length lens leo
    less let level levels library life light lighting like limited limits line lines link list little live living ll
    load local located location logger long look looking looks loss lost lot love low lower luck m machines made
    main maintenance make makes making man manage management many mapping market marketing match matches material
    materials matter max may me meal mean meaning means media meet meeting mel members memory mental merge message
    method mind minutes mirror mix mobile model models modern month months more most movement much multi multipart
    multiple museum music must my n name named national natural nature navigate near necessary need needed needs
    network never new news next nice night no non none not note notes now number object of off offer offers office
    often oil old on once one online only open option optional options or order org organic organization
    organizations os other others otherwise our out output over overall own package packages painting pair param
    parameters params park parse parsed part parts party password past path patient pattern patterns pay peace
    people per percent perfect performance period person personal pet phone photo photos phrase physical pic picture
    piece pieces place plan planning plans platform play playing playlist please point pool pop popular port
    position positions positive possible post potential power powered practice prefer preferences prepare prepared
    prevent price prices primitive print priority private process product products professional program progress
    project projects property pros protect protein protocol provide proxy public purchase put pv python q quality
    query question questions quote r raise range rare raw re reach read reading ready real really reason receive
    recent recipe recipes recommend record records red redirect reduce reference regular related relationship
    relationships remember remove replace report representation request requests require required requires research
    resource resources respect response responses rest restaurants result results return returns review reviews rice
    rich ride right ring risk road rock role room routine row rules run running runtime s safe salt same sat save
    scan schedule scheme school science search season section security see seeing seek seen self send sending sense
    sequence series serve server service services session set sets setting share shared sharing she shop shopping
    short should show shows side sign silver similar simple since single size skills skin sleep small so social soft
    solutions some someone something song songs soon sound sounds source sources space spark speaker special species
    specific speed split spot stand standing start started starting state station status stay step steps still
    storage store stores stories story str stream strength stress string strip strong students studio style styles
    success such suggest summary sun super support supports sure sweet sync syntax system systems t table take
    taking talk target tasks taste tea team technology tell template terms test text texture th than thanks that the
    their them theme themes then there these they thing things think thinking this those three through time timeout
    times tips to today too tools top total touch tour track tracking tracks traditional traffic trail train
    training transfer transport travel tree trip true trust try trying tuple two type types typically under union
    unique until up update updated uri url us usage use used user username users uses using usually utf v value
    values ve verify version video view views visit wait wake walk want wanted warm was watch water way ways we wear
    website week weeks weight well went were what when where whether which while white who whole why wide will
    window wine with within without woman women won words work working works world worth would wow write writing x
    yeah year years yes yield you young your
"""
_CLUSTERS = """
    ), ). ); ): )) () (" (' ") ') ", ', ". '. ": ': =" =' == != <= >= -> => += // -- ** && || :: .. ... [] {} [" [' "]
    '] }} {{ `` ``` ?? !! ## ### (): ()) ')) "))
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_ONE_TOKEN = frozenset(_CLUSTERS.split())
# A space belongs to the word or punctuation after it, as in the tokenizer; before digits and CJK it costs one.
_ATOM = re.compile(
    r"(?P<word> ?(?:[A-Z](?![A-Za-z])|[A-Z]?[a-z]+))|(?P<capitals> ?[A-Z]+(?![a-z]))|(?P<digits>[0-9]{1,3})"
    r"|(?P<marks> ?[!-/:-@\[-`{-~]+)|(?P<blank>\n+|(?P<same>[ \t])(?P=same)*(?!\S)|[\x00-\x20\x7f])"
    r"|(?P<other>[^\x00-\x7f]+)"
)
_RARE = re.compile(r"[\u0250-\u036f\u0530-\u1fff\u2070-\u2fff\u200b-\u200f]")


class O200kCounter:
    """The tokenizer of current OpenAI models, from the optional package ``bpe-openai``. Special tokens are plain text.

    :raises ImportError: the package is not installed.
    """

    # The package refuses a million characters or 200,000 tokens at once; a character is at most four tokens.
    _PIECE = 45_000

    def __init__(self) -> None:
        import bpe_openai

        self._encoding: Any = bpe_openai.get_encoding("o200k_base")

    @property
    def name(self) -> str:
        return "o200k"

    def count(self, text: str) -> int:
        """Tokens of ``text``, summed over pieces of 45,000 characters. Lone surrogates count as U+FFFD."""
        encode = self._encoding.encode_ordinary
        return sum(len(encode(text[i : i + self._PIECE])) for i in range(0, len(text), self._PIECE))


class EstimatedCounter:
    """An upper estimate of the o200k count, 1.3 to 1.7 times the real one on Chinese, Japanese, English and code.

    Other alphabets pay by the character: Korean about 2 times, Russian 4 times the real count.
    """

    @property
    def name(self) -> str:
        return "estimate"

    def count(self, text: str) -> int:
        """An upper estimate of the tokens of ``text``: 0 for an empty one, never more than its bytes in UTF-8."""
        tenths = 0
        uncertain = False
        for match in _ATOM.finditer(text):
            price = _price(match.lastgroup, match.group())
            uncertain = uncertain or price > 10
            tenths += price
        # Prices of letter pairs are fitted, not proven: one token more covers the rare word above its price.
        return min(-(-tenths // 10) + uncertain, _utf8_length(text))


def _price(kind: str | None, atom: str) -> int:
    """In tenths of a token."""
    if kind == "word":
        return _word_price(atom.lower())
    if kind == "digits":
        return 10
    if kind == "marks":
        return _marks_price(atom)
    if kind == "capitals":
        return 10 * len(atom.lstrip(" "))
    if kind == "other":
        prices = _prices()
        price = sum(prices.get(char, 4) for char in atom)
        # Between characters of rare scripts the tokenizer sometimes merges bytes to its own disadvantage.
        return 10 * price + 10 * -(-len(_RARE.findall(atom)) // 8)
    return 10 * (1 + (len(atom) - 1) // 8)


@lru_cache(maxsize=16384)
def _word_price(word: str) -> int:
    word = word.lstrip(" ")
    if word in _COMMON:
        return 10
    codes = [ord(char) - 97 for char in word]
    price = int(_START[codes[0]], 36)
    for left, right in pairwise(codes):
        price += int(_PAIRS[left * 26 + right], 36)
    return max(10, price)


@lru_cache(maxsize=4096)
def _marks_price(atom: str) -> int:
    marks = atom.lstrip(" ")
    if marks in _ONE_TOKEN:
        return 10
    if len(marks) > 3 and marks.count(marks[0]) == len(marks):
        return 10 * (1 + len(marks) // 2)
    return 10 * len(marks)


@lru_cache(maxsize=1)
def _prices() -> dict[str, int]:
    """Tokens of each character outside ASCII, alone. One that is not in here costs four, its bytes in UTF-8."""
    packed = zlib.decompress(base64.b85decode(_PRICES))
    codes = (*range(0x80, 0x10000), *range(0x1F000, 0x1FB00))
    return {chr(code): 1 + (packed[i >> 2] >> 2 * (i & 3) & 3) for i, code in enumerate(codes)}


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@lru_cache(maxsize=1)
def token_counter() -> TokenCounter:
    """The best counter at hand: o200k if ``bpe-openai`` is installed (``hybridmem[tokens]``), else the estimate."""
    try:
        return O200kCounter()
    except ImportError:
        return EstimatedCounter()


_SENTENCE_END = re.compile(r"[。！？!?…\n]+[”’」』）)\"']*|\.+[”’)\"']*(?=\s|\Z)")
_WORD_END = re.compile(r"(?<=\S)(?=\s)|(?<=[\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef])|(?=[\u3040-\u9fff\uac00-\ud7a3])")
# At most this share of what would fit is given up to end at a sentence, or else at a word.
_GIVE_UP = 0.5


def truncate(text: str, max_tokens: int, counter: TokenCounter) -> tuple[str, bool]:
    """Cuts ``text`` to at most ``max_tokens``, the mark "…" at its end included.

    The cut is at a sentence end if one lies in the second half of what fits, else at a word boundary there, else
    between graphemes: never inside an emoji sequence, a flag, or a character with its combining marks.

    :return: (the text, whether it was cut); ("", True) if nothing fits.
    """
    # What is beyond 40 characters a token cannot fit unless it is mostly blank; not counted over and over.
    head = text[: 40 * max(max_tokens, 0) + 40]
    if counter.count(head) <= max_tokens and (len(head) == len(text) or counter.count(text) <= max_tokens):
        return text, False
    low, high = 0, len(head)
    while low < high:  # the longest prefix that fits, as if counts only grew with length
        middle = (low + high + 1) // 2
        low, high = (middle, high) if counter.count(head[:middle] + MARK) <= max_tokens else (low, middle - 1)
    end = low
    while end > 0:
        cut = head[: _good_end(head, end)].rstrip()
        if cut and counter.count(cut + MARK) <= max_tokens:
            return cut + MARK, True
        end = min(end - 1, int(end * 0.9))
    return "", True


def _good_end(text: str, end: int) -> int:
    """The best place to cut at or before ``end``."""
    start = int(end * (1 - _GIVE_UP))
    for pattern in (_SENTENCE_END, _WORD_END):
        places = [match.end() for match in pattern.finditer(text, start, min(end + 1, len(text))) if match.end() <= end]
        for place in reversed(places):
            if place > start and _between_graphemes(text, place):
                return place
    while end > 0 and not _between_graphemes(text, end):
        end -= 1
    return end


def _between_graphemes(text: str, i: int) -> bool:
    """Whether ``text`` may be cut before index ``i`` without damaging what a reader sees as one character."""
    if i <= 0 or i >= len(text):
        return True
    before, after = text[i - 1], text[i]
    if before == "\u200d" or after == "\u200d" or before + after == "\r\n":
        return False
    if unicodedata.category(after)[0] == "M" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    if "\U000e0020" <= after <= "\U000e007f":
        return False
    if "\u1160" <= after <= "\u11ff" or ("\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff"):
        return False
    if not "\U0001f1e6" <= after <= "\U0001f1ff":
        return True
    flags = 0  # regional indicators pair up from the left
    while flags < i and "\U0001f1e6" <= text[i - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 0
