"""What of the ranked hits is shown within a token budget. Pure; how it looks is hybridmem.rendering.

When the budget is tight the chain of ancestors gives way from the outside, and keeps to half of the budget; the active
task may take more, and its next step is kept longest. Then hits are taken in rank order. A content longer than its
share of the budget is cut to that share, at the end of a sentence if it can be; what does not fit the room that is left
goes, and smaller ones are tried after it; only the first is cut to fit. If room is left in the end, the shares grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hybridmem.errors import InvalidInput
from hybridmem.ports import TokenCounter
from hybridmem.rendering import RENDERERS, Entry, Renderer, next_step_of, title
from hybridmem.results import Hit
from hybridmem.tokens import MARK, truncate, whole_end
from hybridmem.types import ROOT_TYPE, Format, Node, Order

OVER_BUDGET = "over budget"
IN_CHAIN = "shown in the ancestor chain"
REPEATED = "shown already"
NOT_RELEVANT = "not relevant enough"
SHORTENED = "too long for the budget: its end is left out"

# Fewer tokens than this hold no item: "- [a] b" alone takes six.
_SMALLEST_ITEM = 4
# A content may take this share of the budget, or this many tokens if that is more. Measured on LongMemEval-S (46 dev
# questions, BM25, budgets of 256 / 512 / 1,024 / 2,048), evidence turns shown whole: 51 / 70 / 86 / 93 % without
# shares, 62 / 76 / 88 / 92 % with them; when hits are cut to fill the last room instead: 45 / 63 / 78 / 88 %.
_SHARE = 8
_LEAST_SHARE = 100

# Hardly any text has more characters to a token: what lies beyond is not even counted.
_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Packed:
    """``tokens`` counts all that is handed over. ``shown`` is best first; all other hits are in ``dropped`` as
    (id, reason); ``shortened`` lists those of the shown that are not whole, as (id, reason).
    """

    text: str
    tokens: int
    shown: tuple[Hit, ...]
    ancestors: tuple[Node, ...]
    dropped: tuple[tuple[str, str], ...]
    shortened: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the chain; ``price`` is its tokens with the line break, alone."""

    node: Node
    text: str
    price: int


@dataclass(frozen=True, slots=True)
class _Item:
    """A hit that is shown, with its rank and the tokens it takes alone, those of its heading included."""

    rank: int
    entry: Entry
    price: int


def pack(
    *,
    ancestors: Sequence[Node],
    hits: Sequence[Hit],
    token_budget: int,
    order: Order,
    counter: TokenCounter,
    format: Format = "text",
    dates: bool | None = None,
    floor: float = 0.0,
) -> Packed:
    """Chooses and lays out what fits.

    :param ancestors: root first, the active task last.
    :param hits: best first.
    :param token_budget: tokens for all that is handed over, markers included; at least 1. For ``messages`` that is
        their contents, for all others the text. If nothing fits the text is empty (``messages``: an empty list; JSON: a
        document without items if at least that fits).
    :param order: ``tree`` groups by branch, oldest first inside; ``time`` is oldest first; ``score`` is best first.
    :param format: see hybridmem.rendering.
    :param dates: whether items show their date (UTC); in time order only where it changes. None: in time order and
        in JSON.
    :param floor: hits with less than this share of the best hit's relevance are not shown; in [0, 1], 0 shows all.
    :raises InvalidInput: the budget is below 1, the floor outside of [0, 1], or the order or format is none of these.
    """
    if token_budget < 1:
        raise InvalidInput(f"token_budget must be at least 1, not {token_budget}")
    if order not in ("tree", "time", "score"):
        raise InvalidInput(f"order must be 'tree', 'time' or 'score', not {order!r}")
    if format not in RENDERERS:
        raise InvalidInput(f"format must be 'text', 'markdown', 'messages' or 'json', not {format!r}")
    if not 0.0 <= floor <= 1.0:
        raise InvalidInput(f"floor must lie in [0, 1], not {floor}")
    shows_dates = order == "time" or format == "json" if dates is None else dates
    packer = _Packer(order, counter, RENDERERS[format], shows_dates, floor, token_budget)
    share = max(_LEAST_SHARE, token_budget // _SHARE)
    packed = packer.fit(ancestors, hits, share)
    limit = token_budget
    while packed.shortened and token_budget - packed.tokens > token_budget // 16 and limit - share > share // 8:
        longer = min(2 * share, (share + limit) // 2)  # the same hits, as long as there is room for
        more = packer.fit(ancestors, hits, longer)
        if more.shown == packed.shown:
            packed, share = more, longer
        else:
            limit = longer
    return packed if packed.shown or packed.ancestors else packer.nothing(packed)


class _Packer:
    def __init__(
        self, order: Order, counter: TokenCounter, renderer: Renderer, dates: bool, floor: float, budget: int
    ) -> None:
        self._order = order
        self._counter = counter
        self._renderer = renderer
        self._dates = dates
        self._floor = floor
        self._budget = budget
        self._prices: dict[str, int] = {}

    def fit(self, ancestors: Sequence[Node], hits: Sequence[Hit], share: int) -> Packed:
        """What fits the budget if no content takes more than ``share``."""
        room = self._budget
        packed = self._attempt(ancestors, hits, room, share)
        while packed.tokens > self._budget:  # joined lines took more than their prices: again with as much less
            room -= packed.tokens - self._budget
            packed = self._attempt(ancestors, hits, room, share)
        for _ in range(2):  # or less, and room is left over
            left = self._budget - packed.tokens
            if left < _SMALLEST_ITEM or all(reason != OVER_BUDGET for _, reason in packed.dropped):
                break
            room += left
            more = self._attempt(ancestors, hits, room, share)
            if more.tokens > self._budget or len(more.shown) < len(packed.shown):
                break
            packed = more
        return packed

    def _attempt(self, ancestors: Sequence[Node], hits: Sequence[Hit], room: int, share: int) -> Packed:
        """Lays out what fits ``room`` by the sum of prices; drops the lowest ranks while that is over the budget."""
        room -= self._price(self._renderer.frame)
        chain = self._chain(ancestors, room, share=2 if hits else 1) if room > 0 else []
        room -= sum(line.price for line in chain)
        items, dropped = self._select(hits, chain, room, share)
        if not items and not chain:
            chain = self._root_alone(ancestors, room)
        while True:
            document = self._layout(chain, items)
            tokens = self._counter.count(document)
            if tokens <= self._budget or not items:
                break
            excess = tokens - self._budget
            while items and excess > 0:
                item = items.pop()
                dropped[item.rank] = (item.entry.hit.id, OVER_BUDGET)
                excess -= item.price
        return Packed(
            text=self._renderer.handed_over(document),
            tokens=tokens,
            shown=tuple(item.entry.hit for item in items),
            ancestors=tuple(line.node for line in chain),
            dropped=tuple(dropped[rank] for rank in sorted(dropped)),
            shortened=tuple((item.entry.hit.id, SHORTENED) for item in items if item.entry.cut),
        )

    def nothing(self, packed: Packed) -> Packed:
        """``packed`` as the format says that there is nothing."""
        document = self._renderer.nothing
        tokens = self._counter.count(document)
        if tokens > self._budget:
            return packed
        return replace(packed, text=self._renderer.handed_over(document), tokens=tokens)

    def _price(self, line: str) -> int:
        """Tokens of a line with its line break; joined lines take about the sum."""
        if line not in self._prices:
            self._prices[line] = self._counter.count(line + "\n")
        return self._prices[line]

    # The chain

    def _chain(self, ancestors: Sequence[Node], room: int, share: int) -> list[_Line]:
        """The lines of the chain that fit, outermost first; all but the active task keep to 1/``share`` of the room."""
        nodes = [node for node in ancestors if node.type != ROOT_TYPE]
        if not nodes:
            return []
        active = max((i for i, node in enumerate(nodes) if node.task), default=len(nodes) - 1)
        innermost = self._active_line(nodes[active], room)
        if innermost is None:
            return []
        left = room // share - innermost.price
        inner: list[_Line] = []
        for node in nodes[active + 1 :]:
            left = self._add(inner, node, left)
        outer: list[_Line] = []
        for node in reversed(nodes[:active]):
            left = self._add(outer, node, left)
            if left <= 0:
                break
        return [*reversed(outer), innermost, *inner]

    def _add(self, lines: list[_Line], node: Node, left: int) -> int:
        """Adds the node in full, else without its next step; 0 if neither fits, so that no gap follows."""
        for text in dict.fromkeys((self._renderer.ancestor(node), self._renderer.ancestor(node, next_step=False))):
            price = self._price(text) if left > 0 else 1
            if price <= left:
                lines.append(_Line(node, text, price))
                return left - price
        return 0

    def _active_line(self, node: Node, room: int) -> _Line | None:
        """The active task in as much detail as fits: whole, with a short title, its next step, or a part of that."""
        short = self._renderer.ancestor(node, title_length=24)
        tries = [self._renderer.ancestor(node), short]
        step = next_step_of(node)
        if step:
            tries.append(self._renderer.step(step))
        for text in tries:
            price = self._price(text)
            if price <= room:
                return _Line(node, text, price)
        if step:
            text, line = step, self._renderer.step
        else:
            text = title(node.content, 24)

            def line(text: str) -> str:
                return self._renderer.ancestor(replace(node, content=text), next_step=False)

        cut = self._fitted(text, room, line)
        return _Line(node, line(cut), self._price(line(cut))) if cut else None

    def _root_alone(self, ancestors: Sequence[Node], room: int) -> list[_Line]:
        """The root is shown only if it is all there is."""
        if len(ancestors) != 1 or ancestors[0].type != ROOT_TYPE:
            return []
        text = self._renderer.ancestor(ancestors[0])
        price = self._price(text)
        return [_Line(ancestors[0], text, price)] if price <= room else []

    # The hits

    def _select(
        self, hits: Sequence[Hit], chain: Sequence[_Line], room: int, share: int
    ) -> tuple[list[_Item], dict[int, tuple[str, str]]]:
        """Takes hits by rank while their prices fit; what is left out is keyed by rank."""
        in_chain = {line.node.id for line in chain}
        titles = [title(line.node.content) for line in chain]
        least = self._floor * max(map(_relevance, hits), default=0.0)
        items: list[_Item] = []
        dropped: dict[int, tuple[str, str]] = {}
        seen: set[str] = set()
        branches: set[tuple[str, ...]] = {()}
        named: dict[str, str] = {}
        first = True
        for rank, hit in enumerate(hits):
            reason = IN_CHAIN if hit.id in in_chain else REPEATED if hit.id in seen else ""
            seen.add(hit.id)
            if not reason and _relevance(hit) < least:
                reason = NOT_RELEVANT
            item = None
            if not reason and room >= _SMALLEST_ITEM:
                branch = _branch(hit, titles, named) if self._order == "tree" else ()
                item = self._item(rank, hit, branch, room, share, branch not in branches, first=first)
                first = False
            if item is None:
                dropped[rank] = (hit.id, reason or OVER_BUDGET)
                continue
            items.append(item)
            branches.add(item.entry.branch)
            room -= item.price
        return items, dropped

    def _item(
        self, rank: int, hit: Hit, branch: tuple[str, ...], room: int, share: int, headed: bool, *, first: bool
    ) -> _Item | None:
        """The hit whole, or shortened; None if too little of it fits. ``headed``: its branch needs a heading yet."""
        heading = self._heading(branch) if headed else 0
        if room - heading < _SMALLEST_ITEM:
            if not (first and branch):
                return None
            branch, heading = (), 0  # better the memory without its branch than nothing
        room -= heading
        entry = self._entry(hit, branch)
        price = self._price(self._line(entry))
        allowed = price
        if price > share:
            allowed = min(price, share + self._price(self._line(replace(entry, body="", cut=True))))
        if room < allowed and not first:
            return None  # the last room filled with a beginning would be at the cost of whole ones further down
        if min(room, allowed) < price:
            body = self._fitted(
                entry.body, min(room, allowed), lambda cut: self._line(replace(entry, body=cut, cut=True))
            )
            if not body:
                return None
            entry = replace(entry, body=body, cut=True)
            price = self._price(self._line(entry))
        return _Item(rank, entry, price + heading)

    def _entry(self, hit: Hit, branch: tuple[str, ...]) -> Entry:
        longest = _CHARACTERS * self._budget
        if len(hit.content) <= longest:
            return Entry(hit, branch, self._renderer.body(hit.content))
        return Entry(hit, branch, self._renderer.body(hit.content[: whole_end(hit.content, longest)] + MARK), cut=True)

    def _line(self, entry: Entry) -> str:
        return self._renderer.item(entry, dated=self._dates)

    def _heading(self, branch: tuple[str, ...]) -> int:
        heading = self._renderer.heading(branch)
        return self._price(heading) if heading else 0

    def _fitted(self, text: str, room: int, line: Callable[[str], str]) -> str:
        """The longest good beginning of ``text`` whose ``line`` costs no more than ``room``; '' if there is none."""
        target = room - self._price(line(""))
        while target > 0:
            cut, _ = truncate(text, target, self._counter)
            if not cut:
                return ""
            excess = self._price(line(cut)) - room
            if excess <= 0:
                return cut
            target = max(target - excess, target // 2)
        return ""

    # The order

    def _layout(self, chain: Sequence[_Line], items: Sequence[_Item]) -> str:
        entries = [item.entry for item in self._ordered(items)]
        return self._renderer.document(
            [line.text for line in chain], entries, dates=self._dates, once=self._order == "time"
        )

    def _ordered(self, items: Sequence[_Item]) -> list[_Item]:
        if self._order == "score":
            return list(items)
        by_time = sorted(items, key=lambda item: item.entry.hit.node.created_at)
        if self._order == "time":
            return by_time
        # Branches by their best hit, sub-branches beside their branch; what hangs in the chain first, under no heading.
        best: dict[tuple[str, ...], int] = {}
        for item in items:
            for length in (1, len(item.entry.branch)):
                best.setdefault(item.entry.branch[:length], item.rank)

        def place(item: _Item) -> tuple[bool, int, int, tuple[str, ...]]:
            branch = item.entry.branch
            return bool(branch), best[branch[:1]], best[branch], branch

        return sorted(by_time, key=place)


def _relevance(hit: Hit) -> float:
    details = hit.score_details
    return details.relevance if details.reranked is None else details.reranked


def _branch(hit: Hit, chain_titles: Sequence[str], named: dict[str, str]) -> tuple[str, ...]:
    """The titles of the hit's path that the chain does not show already; "/" for what hangs beside the chain.

    ``named`` keeps what :func:`title` has made, since the hits of a deep tree share most of their paths.
    """
    named.update((one, title(one)) for one in set(hit.path) - named.keys())
    path = [named[one] for one in hit.path]
    if not path and chain_titles:
        return ("/",)
    shown = 0
    while shown < len(path) and any(_same_title(path[shown], one) for one in chain_titles):
        shown += 1
    return tuple(path[shown:])


def _same_title(short: str, whole: str) -> bool:
    return short == whole or (short.endswith(MARK) and whole.startswith(short.removesuffix(MARK)))
