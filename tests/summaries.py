"""Shared by the tests of consolidation: sessions with planted facts in Chinese and English, and summarisers of ours."""

from __future__ import annotations

from collections.abc import Sequence

from hybridmem import Memory
from hybridmem.ports import Passage

#: (what is said, type of the memory, what of it must survive): 15 in Chinese and 15 in English; names, numbers with
#: units, dates, paths, commands, negations, decisions, preferences. Written without a look at the summariser's words.
PLANTED = (
    ("张伟负责报销系统的对接。", "fact", "张伟"),
    ("连接池上限是 40 个连接，超过就排队。", "event", "40 个"),
    ("接口的超时时间改为 30 秒。", "event", "30 秒"),
    ("上线日期定在 2026年9月18日。", "decision", "9月18日"),
    ("配置文件在 /etc/claims/app.yaml。", "event", "/etc/claims/app.yaml"),
    ("重启命令是 `systemctl restart claims-api`。", "event", "systemctl restart claims-api"),
    ("不要在工作日重启网关。", "event", "不要在工作日重启网关"),
    ("发票号 INV-20431 已经录入。", "event", "INV-20431"),
    ("李娜喜欢用短信收通知。", "preference", "短信"),
    ("预算是 12,500 元。", "fact", "12,500 元"),
    ("数据库版本是 PostgreSQL 15.4。", "event", "15.4"),
    ("财务退回的原因是抬头写错了公司名。", "event", "抬头写错了公司名"),
    ("决定拆成两张单子重新提交。", "decision", "拆成两张单子"),
    ("日志里报 ERR_POOL_17。", "event", "ERR_POOL_17"),
    ("王经理的邮箱是 wang.li@example.com。", "event", "wang.li@example.com"),
    ("Maria Santos owns the migration.", "fact", "Maria Santos"),
    ("The nightly job takes 45 minutes.", "event", "45 minutes"),
    ("The dump is 3.2 GB.", "event", "3.2 GB"),
    ("Cut-over is planned for 14 November 2026.", "event", "14 November 2026"),
    ("The script lives in tools/migrate/run_all.sh.", "event", "tools/migrate/run_all.sh"),
    ("Run `alembic upgrade head` before the copy.", "event", "alembic upgrade head"),
    ("Never truncate the audit table.", "event", "Never truncate the audit table"),
    ("Ticket OPS-7719 tracks it.", "event", "OPS-7719"),
    ("Omar prefers a phone call to mail.", "preference", "phone call"),
    ("The refund was $1,240.50.", "event", "$1,240.50"),
    ("We decided to keep both databases for two weeks.", "decision", "two weeks"),
    ("The copy failed because the text was still in GBK.", "event", "GBK"),
    ("The dashboard is at https://grafana.example.com/d/claims.", "event", "https://grafana.example.com/d/claims"),
    ("The customer must not be charged twice.", "fact", "must not be charged twice"),
    ("The release tag is v2.14.1.", "event", "v2.14.1"),
)
CHATTER = (
    "{}:10 给同事打了电话，没人接。",
    "看了第 {} 遍文档，先喝杯茶。",
    "大家在群里闲聊，气氛不错，说到了周边的餐馆。",
    "Called again at {}:25, nobody answered.",
    "Read through the mails of the morning, a quiet day so far.",
    "Short chat in the corridor about the weather and the new coffee machine.",
    "正在处理中，稍后再看看情况怎么样。",
    "Waiting for the others, looking at the ticket list meanwhile.",
)


def chatter(memory: Memory, parent: str, count: int, start: int = 0) -> None:
    """Events that say nothing, none like another, the last part mixed of both languages."""
    for number in range(start, start + count):
        text = CHATTER[number % len(CHATTER)].format(number)
        memory.add(f"{text} 第{number}次 note {number}" if number % 3 == 0 else text, type="event", parent=parent)


def session(memory: Memory) -> str:
    """A finished task with the planted facts among three times as much chatter; the agent is at work elsewhere."""
    task = memory.start_task("报销系统 migration")
    for number, (text, kind, _) in enumerate(PLANTED):
        memory.add(text, type=kind)
        chatter(memory, task.id, 3, 3 * number)
    memory.finish_task(task.id)
    memory.start_task("别处 elsewhere")
    return task.id


def lost(memory: Memory) -> list[str]:
    """The planted facts that stand in no live memory."""
    live = "\n".join(node.content for node in memory.walk() if node.state == "live")
    return [fact for _, _, fact in PLANTED if fact not in live]


class Saying:
    """A summariser that says what it was given, or raises it; ``asked`` are the passages and budgets it got."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Sequence[Passage], int]] = []

    def summarize(self, passages: Sequence[Passage], budget: int) -> str:
        self.asked.append((passages, budget))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer  # type: ignore[return-value]
