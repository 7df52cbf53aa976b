"""One digit can be the whole difference: what makes two texts two is seen, in English, Chinese and both at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridmem.specifics import differences, specifics


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("订单 4711 已发货", "订单 4712 已发货", "number"),
        ("预算 3,500 元", "预算 35,00.5 元", "number"),
        ("deploy in 3 days", "deploy in 3 weeks", "number"),
        ("三天后交付", "五天后交付", "number"),
        ("send two copies", "send three copies", "number"),
        ("折扣 35%", "折扣 35", "number"),
        ("meet at 10:30", "meet at 10:31", "number"),
        ("Deployed v1.2.3 to prod", "Deployed v1.2.4 to prod", "code"),
        ("日志在 /var/log/a.log", "日志在 /var/log/b.log", "code"),
        ("retry ERR_CONN_42", "retry ERR_CONN_43", "code"),
        ("写信给 a@x.com", "写信给 b@x.com", "code"),
        ("call getUser first", "call setUser first", "code"),
        ("run with --force", "run with --dry-run", "code"),
        ("Alice approved the budget", "Bob approved the budget", "name"),
        ("the meeting with Alice", "the meeting with Alicia", "name"),
        ("用户王芳负责审批", "用户李明负责审批", "name"),
        ("王小明同意了方案", "王小红同意了方案", "name"),
        ("读《红楼梦》第一回", "读《西游记》第一回", "name"),
        ("不要发送邮件给财务", "要发送邮件给财务", "negation"),
        ("the invoice was paid", "the invoice was not paid", "negation"),
        ("it doesn’t work offline", "it does work offline", "negation"),
        ("never call before noon", "call before noon", "negation"),
        ("没有收到发票", "收到发票", "negation"),
        ("the cache is enabled", "the cache is disabled", "opposite"),
        ("申请已批准", "申请已驳回", "opposite"),
        ("call before lunch", "call after lunch", "opposite"),
        ("周三上午开会", "周三下午开会", "opposite"),
    ],
)
def test_what_makes_two_of_them_is_seen_both_ways(one: str, other: str, kind: str) -> None:
    assert any(found.startswith(kind) for found in differences(one, other)), differences(one, other)
    assert any(found.startswith(kind) for found in differences(other, one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("发票金额 3,500.00 元", "发票金额 3500 元"),
        ("每次部署前都要跑完整测试", "每次部署之前都要跑完整的测试"),
        ("Run all tests before each deploy", "Run all the tests before each deployment"),
        ("The user prefers dark mode", "User prefers a dark mode"),
        ("wait 2 days", "wait 2 day"),
        ("ＡＰＩ 密钥要保密", "API 密钥要保密"),
        ("这个计划特别好", "这个计划非常好"),
        ("Tests run on Linux", "tests run on linux"),
    ],
)
def test_the_same_in_other_words_differs_in_nothing(one: str, other: str) -> None:
    assert differences(one, other) == ()


@given(st.text(max_size=200))
def test_any_text_can_be_read_and_differs_from_itself_in_nothing(text: str) -> None:
    specifics(text)
    assert differences(text, text) == ()


@given(st.text(max_size=60), st.integers(0, 10**9), st.integers(0, 10**9))
def test_another_number_is_always_another_text(text: str, one: int, other: int) -> None:
    assert (differences(f"{text} 编号 {one} ok", f"{text} 编号 {other} ok") == ()) == (one == other)
