"""What the synthetic runs are worded with: the form of a domain, and the names and values they are filled with.

Everything is there in Chinese and in English, in the same order, so that a run in both languages can take its pick.
Only names of people and firms are different ones; nobody has two, so a run in both languages keeps to one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Both(NamedTuple):
    """The same thing in two languages; ``getattr(both, language)`` picks one."""

    zh: str
    en: str


class Wordings(NamedTuple):
    """Several ways to say one thing, in two languages."""

    zh: tuple[str, ...]
    en: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One thing that is found out in every task of a domain.

    ``stage`` is the place of the sub-task it belongs to; ``kind`` labels questions about it; ``type`` is the node type.
    ``value`` says what is filled in for {v}: "id:PATTERN" (each # a digit), "money", "count", "date", "person", or the
    name of a list in VALUES.

    In ``tell`` and ``correct``, {w} is whom the task is about; the first wording of ``tell`` leaves that out, as notes
    do that are taken inside of a task. Where there is no ``correct``, the value never changes. In ``ask``, {x} is the
    task in words; the first wording takes up the words of ``tell``, the others do not. ``remark`` has the words of the
    first question, says nothing about any task, and is never the answer.
    """

    stage: int
    kind: str
    type: str
    value: str
    tell: Wordings
    ask: Wordings
    remark: Both
    correct: Wordings | None = None


@dataclass(frozen=True, slots=True)
class Domain:
    """A sort of task. ``whom`` names the list of names in WHOM; {w} and {m} in ``title`` and ``task`` are whom and what
    it is about. ``stages`` are the titles of its sub-tasks, ``within`` that of one more below ``stages[within_stage]``.
    """

    whom: str
    matters: tuple[Both, ...]
    title: Both
    task: Both
    stages: tuple[Both, ...]
    within: Both
    within_stage: int
    attributes: tuple[Attribute, ...]
    chatter: tuple[Both, ...]


_SERVICES = (
    "order-sync", "order-sink", "pay-gateway", "pay-relay", "user-index", "user-inbox", "mail-queue", "map-cache",
)  # fmt: skip
_TABLES = (
    "customers", "customs", "orders_2024", "orders_2025", "ledger_main", "ledger_mail", "audit_log", "audio_log",
)  # fmt: skip

#: Neighbours are alike.
WHOM: dict[str, Wordings] = {
    "people": Wordings(
        zh=("张伟", "张玮", "李娜", "李楠", "王晓明", "王小明", "陈静", "陈婧", "刘洋", "赵磊", "赵蕾", "周敏"),
        en=(
            "Anna Berg", "Anne Berg", "Tom Keller", "Tim Keller", "Maria Santos", "Mario Santos",
            "Jon Lindqvist", "Joan Lindqvist", "Priya Nair", "Pria Naidu", "Omar Haddad", "Omer Hadad",
        ),
    ),
    "services": Wordings(_SERVICES, _SERVICES),
    "companies": Wordings(
        zh=("恒达贸易", "恒达茂业", "蓝海科技", "蓝河科技", "东方印刷", "东风印务", "北辰物流", "北城物流"),
        en=(
            "Harbour Foods", "Harper Foods", "Northwind Print", "Northway Print",
            "Lakeside Tools", "Lakeview Tools", "Summit Freight", "Summer Freight",
        ),
    ),
    "tables": Wordings(_TABLES, _TABLES),
}  # fmt: skip

#: People who are mentioned, and never whom a task is about.
COLLEAGUES = Wordings(
    zh=("孙经理", "吴会计", "郑工", "冯主管", "韩律师", "曹助理", "许工", "邓主任", "彭会计", "蒋经理"),
    en=(
        "Ms Ito",
        "Mr Doyle",
        "Dr Vance",
        "Ms Okafor",
        "Mr Reyes",
        "Ms Lund",
        "Mr Patel",
        "Ms Weiss",
        "Mr Chan",
        "Ms Roy",
    ),
)

VALUES: dict[str, tuple[Both, ...]] = {
    "refusals": (
        Both("发票抬头写错了公司名", "the company name on the bill was wrong"),
        Both("缺少主管签字", "the signature of the head of department was missing"),
        Both("超过了九十天的期限", "it came after the ninety days were over"),
        Both("住宿超出差标", "the hotel was above the limit for the grade"),
        Both("同一张小票交了两次", "the same slip had been handed in twice"),
        Both("汇率按错了日期", "the exchange rate of the wrong day was used"),
    ),
    "channels": (
        Both("短信", "text message"),
        Both("企业微信", "the company chat"),
        Both("电话", "a phone call"),
        Both("邮件，不要打电话", "e-mail, never by phone"),
        Both("纸质信件", "a letter on paper"),
    ),
    "ways": (
        Both("拆成两张单子重新提交", "split it in two and hand it in again"),
        Both("先走借款流程", "take an advance first"),
        Both("由部门预算承担", "charge it to the budget of the department"),
        Both("等下个月再处理", "leave it until next month"),
        Both("改用公务卡付款", "pay by company card instead"),
    ),
    "seats": (
        Both("靠过道，离洗手间远一点", "on the aisle, far from the lavatory"),
        Both("靠窗", "by the window"),
        Both("紧急出口那一排", "in the row of the emergency exit"),
        Both("最前面一排", "right at the front"),
        Both("中间也行，但要挨着同事", "in the middle, if beside a colleague"),
    ),
    "food": (
        Both("全素，不吃蛋奶", "vegan, no eggs and no milk"),
        Both("清真", "halal"),
        Both("不吃花生，会过敏", "nothing with peanuts, because of an allergy"),
        Both("少盐", "with little salt"),
        Both("不吃海鲜", "no fish and no shellfish"),
    ),
    "hotels": (
        Both("江畔酒店", "the Riverside Inn"),
        Both("中央花园酒店", "the Central Garden"),
        Both("老城客栈", "the Old Town Lodge"),
        Both("机场快捷酒店", "the Airport Express Hotel"),
        Both("湖景公寓", "the Lake View Apartments"),
    ),
    "transport": (
        Both("不坐飞机，改高铁", "take the fast train and not the plane"),
        Both("租车自己开", "hire a car and drive"),
        Both("提前一天走", "leave one day early"),
        Both("取消返程，改成单程", "drop the way back and go one way"),
        Both("和客户拼车", "share a ride with the client"),
    ),
    "clauses": (
        Both("违约金比例", "the share to be paid on breach"),
        Both("数据归属", "who owns the data"),
        Both("独家供货", "exclusive supply"),
        Both("自动续约", "renewal without notice"),
        Both("验收标准", "when the work counts as accepted"),
    ),
    "terms": (
        Both("货到三十天付清", "all of it thirty days after delivery"),
        Both("预付三成，余款验收后付", "three tenths at once, the rest once accepted"),
        Both("按季度结算", "settled every quarter"),
        Both("分十二期", "in twelve parts"),
        Both("款到发货", "before anything is shipped"),
    ),
    "deals": (
        Both("让一步价格，换两年的质保", "give way on price for two years of warranty"),
        Both("暂停谈判，另找一家比价", "stop talking and ask another firm for a quote"),
        Both("只签半年试用", "sign for half a year on trial only"),
        Both("接受对方的版本", "take the version of the other side"),
        Both("交给法务重写附件", "have the annex written anew by legal"),
    ),
    "causes": (
        Both("连接池耗尽", "the connection pool had run dry"),
        Both("证书过期", "a certificate had expired"),
        Both("磁盘写满了日志", "logs had filled the disk"),
        Both("时区设置不一致", "two machines disagreed about the time zone"),
        Both("缓存里是旧的密钥", "an old key was still in the cache"),
        Both("重试没有上限", "retries had no upper bound"),
    ),
    "alarms": (
        Both("只在半夜以外推送", "be paged outside of the night only"),
        Both("每小时汇总一条", "get one digest an hour"),
        Both("所有告警都直接打电话", "have every alarm ring the phone"),
        Both("先发到值班群", "see it in the duty channel first"),
        Both("不要图，只要文字", "get words and no charts"),
    ),
    "fixes": (
        Both("回滚到上一个版本", "roll back to the release before"),
        Both("关掉新开关，其余不动", "turn the new flag off and leave the rest"),
        Both("加两台机器顶住", "add two machines to hold out"),
        Both("限流到一半", "throttle to one half"),
        Both("整个重启一遍", "restart all of it"),
    ),
    "targets": (
        Both("新机房的 PostgreSQL 15", "PostgreSQL 15 in the new data centre"),
        Both("托管的 MySQL 8", "the managed MySQL 8"),
        Both("对象存储里的 Parquet", "Parquet in object storage"),
        Both("两台 ClickHouse", "a pair of ClickHouse nodes"),
        Both("共享的数据湖", "the shared lake house"),
    ),
    "blockers": (
        Both("有重复的主键", "keys that occurred twice"),
        Both("字符集是老的 GBK", "text that was still in GBK"),
        Both("外键指向空", "references that pointed nowhere"),
        Both("日期里有零月零日", "dates with a month of zero"),
        Both("触发器改写了数据", "triggers that rewrote what was copied"),
    ),
    "copying": (
        Both("双写两周再切", "write to both for two weeks and switch then"),
        Both("停机一次性搬完", "stop everything and move it in one go"),
        Both("按月份分批搬", "move it month by month"),
        Both("只搬最近三年", "move the last three years only"),
        Both("先脱敏再搬", "mask it before it moves"),
    ),
    "faults": (
        Both("箱子进水", "water had got into the boxes"),
        Both("少发了一半", "half of it had not been sent"),
        Both("颜色发错了", "the colour was not the one ordered"),
        Both("晚到了九天", "it came nine days late"),
        Both("贴错了标签", "labels of another firm were on it"),
    ),
    "cities": (
        Both("波尔图", "Porto"),
        Both("利兹", "Leeds"),
        Both("鹿特丹", "Rotterdam"),
        Both("格拉茨", "Graz"),
        Both("马尔默", "Malmö"),
        Both("乌得勒支", "Utrecht"),
    ),
    "amends": (
        Both("免运费重发一次", "send it again free of charge"),
        Both("下一单打八折", "take a fifth off the next one"),
        Both("全额退回", "give all of the money back"),
        Both("派人上门换货", "have somebody come and exchange it"),
        Both("送一年保修", "add a year of guarantee"),
    ),
}

#: Said in every task, whatever it is about: {p} a colleague, {t} a time of day, {n} a number.
CHATTER = (
    Both("{t} 给{p}打了电话，没人接。", "Called {p} at {t}, nobody answered."),
    Both("{p}说 {t} 以后才有空。", "{p} has time only after {t}."),
    Both("收件箱里有 {n} 封未读，没有相关的。", "{n} unread mails, none of them about this."),
    Both("把第 {n} 页的草稿发给了{p}。", "Sent page {n} of the draft to {p}."),
    Both("{t} 开了短会，没有结论。", "Short meeting at {t}, no result."),
    Both("等{p}回复，先做别的。", "Waiting for {p}, doing something else meanwhile ({n})."),
    Both("系统在 {t} 卡了 {n} 秒，刷新后正常。", "The page hung for {n} seconds at {t}, fine after a reload."),
    Both("{p}转来 {n} 个附件，都看过了。", "{p} passed on {n} attachments, all of them read."),
)

#: Questions by value: {v} an identifier, {d} a day in words.
ASK_IDENTIFIER = Wordings(
    zh=("{v}", "{v} 是哪里来的？", "哪条记录里有 {v}？"), en=("{v}", "What is {v}?", "Where did {v} come up?")
)
ASK_DATE = Wordings(zh=("{d}有什么安排？", "定在{d}的是哪件事？"), en=("What is set for {d}?", "What happens on {d}?"))
#: Two questions in one.
ASK_BOTH = Both("{a}另外，{b}", "{a} And also: {b}")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
