"""Synthetic tasks of engineers and of support: incidents, migrations, complaints."""

from __future__ import annotations

from eval.datasets.synthetic_words import Attribute, Both, Domain, Wordings

INCIDENTS = Domain(
    whom="services",
    matters=(
        Both("超时", "time-outs"),
        Both("内存泄漏", "memory leak"),
        Both("消息丢失", "lost messages"),
        Both("登录失败", "failed logins"),
        Both("慢查询", "slow queries"),
    ),
    title=Both("故障：{w}，{m}", "Incident: {w}, {m}"),
    task=Both("{w}的{m}故障", "the {m} of {w}"),
    stages=(
        Both("看日志", "Read the logs"),
        Both("定位", "Find the cause"),
        Both("修复上线", "Ship the fix"),
        Both("复盘", "Look back"),
    ),
    within=Both("压测", "Load test"),
    within_stage=2,
    attributes=(
        Attribute(
            0, "identifier", "event", "id:ERR_NET_####",
            tell=Wordings(
                ("日志里报错 {v}。", "{w}报错 {v}。"),
                ("The log shows error {v}.", "{w} fails with error {v}."),
            ),
            ask=Wordings(
                ("{x}日志里报什么错？", "{x}一开始看到的代码是哪个？"),
                ("What error does the log of {x} show?", "Which code gave {x} away at first?"),
            ),
            remark=Both("报错日志保留十四天。", "Logs with errors are kept for fourteen days."),
        ),
        Attribute(
            0, "identifier", "fact", "id:/srv/app/conf-##/node-##.yaml",
            tell=Wordings(
                ("配置文件在 {v}。", "{w}的配置文件：{v}。"),
                ("The configuration is at {v}.", "{w}'s configuration: {v}."),
            ),
            ask=Wordings(
                ("{x}的配置文件在哪里？", "{x}要改参数该动哪个路径？"),
                ("Where is the configuration for {x}?", "What do I edit to tune things after {x}?"),
            ),
            remark=Both("配置文件改动要评审。", "Every change of a configuration is reviewed."),
        ),
        Attribute(
            1, "fact", "event", "causes",
            tell=Wordings(("查明原因：{v}。", "{w}的原因查明了，{v}。"), ("The cause: {v}.", "The cause at {w}: {v}.")),
            correct=Wordings(
                ("之前的结论不对，原因其实是{v}。", "更正原因：{v}。"),
                ("That was wrong, the cause is that {v}.", "Cause corrected: {v}."),
            ),
            ask=Wordings(
                ("{x}的原因是什么？", "{x}到底是怎么搞出来的？"),
                ("What is the cause of {x}?", "What really brought about {x}?"),
            ),
            remark=Both("原因分类见手册。", "The kinds of causes are in the handbook."),
        ),
        Attribute(
            1, "fact", "fact", "person",
            tell=Wordings(("值班是{v}。", "{w}值班：{v}。"), ("On duty: {v}.", "On duty for {w}: {v}.")),
            correct=Wordings(
                ("换班了，值班现在是{v}。", "更正：值班是{v}。"),
                ("Shift change, on duty now: {v}.", "Correction: {v} is on duty."),
            ),
            ask=Wordings(
                ("{x}谁值班？", "{x}又发作的话目前叫谁起床？"),
                ("Who is on duty for {x}?", "Whom would we wake if {x} came back today?"),
            ),
            remark=Both("值班表每周一换。", "The duty list changes on Mondays."),
        ),
        Attribute(
            2, "identifier", "fact", "id:v#.##.##",
            tell=Wordings(
                ("修复版本 {v}。", "{w}的修复版本是 {v}。"),
                ("Fixed in version {v}.", "{w} is fixed in version {v}."),
            ),
            correct=Wordings(
                ("那个版本撤回了，修复版本是 {v}。", "更正：修复在版本 {v}。"),
                ("That one was withdrawn, fixed in version {v}.", "Correction: the fix is in version {v}."),
            ),
            ask=Wordings(
                ("{x}的修复版本是哪个？", "{x}得升级到多少才算好了？"),
                ("In which version is {x} fixed?", "What must one upgrade to now to be rid of {x}?"),
            ),
            remark=Both("修复版本周四发布。", "Fixed versions go out on Thursdays."),
        ),
        Attribute(
            2, "date", "fact", "date",
            tell=Wordings(
                ("维护窗口 {v} 凌晨。", "{w}的维护窗口是 {v} 凌晨。"),
                ("Maintenance on {v}.", "{w}: maintenance on {v}."),
            ),
            ask=Wordings(
                ("{x}的维护窗口是哪天？", "{x}哪天夜里停机？"),
                ("When is maintenance for {x}?", "Which night will it be down because of {x}?"),
            ),
            remark=Both("维护窗口提前一周公告。", "Maintenance is announced a week ahead."),
        ),
        Attribute(
            3, "preference", "preference", "alarms",
            tell=Wordings(
                ("告警偏好：{v}。", "{w}的负责人对告警的要求：{v}。"),
                ("On alerts, wants to {v}.", "The owner of {w} wants to {v}."),
            ),
            ask=Wordings(
                ("{x}的告警偏好是什么？", "{x}再出事应当如何打扰负责人？"),
                ("What is wanted of alerts after {x}?", "How would its owner like to be disturbed after {x}?"),
            ),
            remark=Both("告警分四级。", "Alerts have four levels."),
        ),
        Attribute(
            3, "decision", "decision", "fixes",
            tell=Wordings(("处理方案：{v}。", "{w}的处理方案是{v}。"), ("The plan: {v}.", "The plan for {w}: {v}.")),
            ask=Wordings(
                ("{x}的处理方案是什么？", "{x}当时怎么救回来的？"),
                ("What is the plan for {x}?", "How did we get out of {x}?"),
            ),
            remark=Both("处理方案要双人确认。", "A plan needs a second pair of eyes."),
        ),
    ),
    chatter=(
        Both("{t} 的曲线平稳，{n} 毫秒。", "The curve is flat at {t}, {n} ms."),
        Both("重启了第 {n} 个副本。", "Restarted replica {n}."),
        Both("{p}在群里问进度，{t} 答复。", "{p} asked in the channel how far we are, answered at {t}."),
    ),
)  # fmt: skip

MIGRATIONS = Domain(
    whom="tables",
    matters=(
        Both("搬迁", "move"),
        Both("归档", "archiving"),
        Both("拆分", "split"),
        Both("合并", "merge"),
    ),
    title=Both("数据：{w} {m}", "Data: {w}, {m}"),
    task=Both("{w} 表的{m}", "the {m} of {w}"),
    stages=(
        Both("盘点", "Take stock"),
        Both("试跑", "Dry run"),
        Both("正式执行", "The real thing"),
        Both("核对", "Reconcile"),
    ),
    within=Both("清洗", "Clean up"),
    within_stage=1,
    attributes=(
        Attribute(
            0, "fact", "fact", "count",
            tell=Wordings(("共 {v} 行。", "{w} 共 {v} 行。"), ("{v} rows in all.", "{w} has {v} rows.")),
            correct=Wordings(
                ("重新统计，共 {v} 行。", "更正行数：{v} 行。"),
                ("Counted again: {v} rows.", "Row count corrected: {v} rows."),
            ),
            ask=Wordings(
                ("{x}共有多少行？", "{x}的规模按最新口径有多大？"),
                ("How many rows are there in {x}?", "What is the size of {x} by the latest figures?"),
            ),
            remark=Both("行数超过一亿要排期。", "More than a hundred million rows need a slot."),
        ),
        Attribute(
            0, "fact", "fact", "targets",
            tell=Wordings(("目标是{v}。", "{w} 的目标是{v}。"), ("The target is {v}.", "The target of {w} is {v}.")),
            ask=Wordings(
                ("{x}的目标是什么？", "{x}之后数据放到哪里去了？"),
                ("What is the target of {x}?", "Where do things live after {x}?"),
            ),
            remark=Both("目标环境要先开防火墙。", "A target needs its firewall opened first."),
        ),
        Attribute(
            1, "fact", "event", "blockers",
            tell=Wordings(
                ("试跑失败，发现{v}。", "{w} 试跑时发现{v}。"),
                ("The dry run failed: {v}.", "The dry run of {w} met {v}."),
            ),
            ask=Wordings(
                ("{x}试跑发现了什么？", "{x}演练的时候被什么绊住了？"),
                ("What did the dry run of {x} meet?", "Over what did the rehearsal of {x} stumble?"),
            ),
            remark=Both("试跑只能在晚上。", "A dry run is for the night only."),
        ),
        Attribute(
            1, "identifier", "fact", "id:/backup/2026/set-####.tar.zst",
            tell=Wordings(("备份在 {v}。", "{w} 的备份：{v}。"), ("The backup is {v}.", "{w}'s backup: {v}.")),
            ask=Wordings(
                ("{x}的备份在哪里？", "{x}要是搞砸了从哪个文件恢复？"),
                ("Where is the backup of {x}?", "Should {x} go wrong, which file brings it back?"),
            ),
            remark=Both("备份保留两个月。", "A backup is kept for two months."),
        ),
        Attribute(
            2, "date", "fact", "date",
            tell=Wordings(("切换日 {v}。", "{w} 的切换日是 {v}。"), ("Cut-over on {v}.", "{w}: cut-over on {v}.")),
            correct=Wordings(
                ("切换日后移到 {v}。", "业务不同意，切换日改成 {v}。"),
                ("Cut-over moved to {v}.", "The business objects, cut-over on {v}."),
            ),
            ask=Wordings(
                ("{x}的切换日是哪天？", "{x}几时正式启用？"),
                ("When is the cut-over of {x}?", "From what day on does {x} count?"),
            ),
            remark=Both("切换日不能在大促期间。", "No cut-over during a sale."),
        ),
        Attribute(
            2, "identifier", "fact", "id:CHG-######",
            tell=Wordings(
                ("变更单 {v} 已批。", "{w} 的变更单是 {v}。"),
                ("Change request {v} is through.", "{w}'s change request is {v}."),
            ),
            ask=Wordings(
                ("{x}的变更单是哪张？", "{x}凭什么手续动的生产？"),
                ("What is the change request of {x}?", "By what paper was production touched in {x}?"),
            ),
            remark=Both("变更单周二评审。", "Change requests are looked at on Tuesdays."),
        ),
        Attribute(
            3, "fact", "fact", "person",
            tell=Wordings(("由{v}核对。", "{w} 由{v}核对。"), ("{v} reconciles.", "{v} reconciles {w}.")),
            ask=Wordings(
                ("{x}由谁核对？", "{x}的结果谁来把关？"),
                ("Who reconciles {x}?", "Who vouches for the outcome of {x}?"),
            ),
            remark=Both("核对要抽样百分之一。", "To reconcile, sample one in a hundred."),
        ),
        Attribute(
            3, "decision", "decision", "copying",
            tell=Wordings(
                ("最终方案：{v}。", "{w} 的最终方案是{v}。"),
                ("The final way: {v}.", "The final way for {w}: {v}."),
            ),
            ask=Wordings(
                ("{x}的最终方案是什么？", "{x}我们选了什么搬法？"),
                ("What is the final way for {x}?", "What approach did we take in {x}?"),
            ),
            remark=Both("最终方案要存档。", "The final way goes on record."),
        ),
    ),
    chatter=(
        Both("校验跑到第 {n} 批。", "Checksums are at batch {n}."),
        Both("{p}借走测试库到 {t}。", "{p} has the test database until {t}."),
        Both("磁盘还剩 {n} GB。", "{n} GB of disk are left."),
    ),
)  # fmt: skip

COMPLAINTS = Domain(
    whom="companies",
    matters=(
        Both("咖啡机订单", "order of coffee machines"),
        Both("办公椅订单", "order of office chairs"),
        Both("包装盒订单", "order of boxes"),
        Both("扫码枪订单", "order of scanners"),
    ),
    title=Both("投诉：{w}，{m}", "Complaint: {w}, {m}"),
    task=Both("{w}{m}的投诉", "the complaint of {w} about the {m}"),
    stages=(
        Both("登记", "Take it down"),
        Both("核实", "Verify"),
        Both("赔付", "Make good"),
        Both("回访", "Call back"),
    ),
    within=Both("查物流", "Trace the parcel"),
    within_stage=1,
    attributes=(
        Attribute(
            0, "identifier", "fact", "id:TCK-#####",
            tell=Wordings(("工单号 {v}。", "{w}的工单号是 {v}。"), ("Ticket {v}.", "{w}'s ticket is {v}.")),
            ask=Wordings(
                ("{x}的工单号是什么？", "{x}在系统里按什么查？"),
                ("What is the ticket of {x}?", "How do I look up {x} in the system?"),
            ),
            remark=Both("工单号由系统生成。", "A ticket is made by the system."),
        ),
        Attribute(
            0, "fact", "event", "faults",
            tell=Wordings(("客户反映{v}。", "{w}反映{v}。"), ("The customer reports: {v}.", "{w} reports that {v}.")),
            ask=Wordings(
                ("{x}客户反映了什么？", "{x}收到的货出了什么毛病？"),
                ("What did the customer report in {x}?", "What was the matter with the goods in {x}?"),
            ),
            remark=Both("客户反映的问题要截图。", "Take a picture of what a customer reports."),
        ),
        Attribute(
            1, "identifier", "fact", "id:SF########",
            tell=Wordings(("运单 {v}。", "{w}的运单是 {v}。"), ("Waybill {v}.", "{w}'s waybill is {v}.")),
            correct=Wordings(
                ("补发了，新运单 {v}。", "更正：运单是 {v}。"),
                ("Sent again, the new waybill is {v}.", "Correction: waybill {v}."),
            ),
            ask=Wordings(
                ("{x}的运单是哪个？", "{x}如今该追踪哪一个号码？"),
                ("What is the waybill of {x}?", "What number do we trace at present for {x}?"),
            ),
            remark=Both("运单要贴在箱子外面。", "A waybill is stuck to the outside."),
        ),
        Attribute(
            1, "fact", "fact", "cities",
            tell=Wordings(
                ("收货地址在{v}。", "{w}的收货地址在{v}。"),
                ("Delivery address in {v}.", "{w}'s delivery address is in {v}."),
            ),
            correct=Wordings(
                ("客户搬了，收货地址改到{v}。", "更正：收货地址在{v}。"),
                ("They have moved, delivery address in {v}.", "Correction: the delivery address is in {v}."),
            ),
            ask=Wordings(
                ("{x}的收货地址在哪里？", "{x}东西现在往哪个城市送？"),
                ("Where is the delivery address of {x}?", "To which town do the goods of {x} go now?"),
            ),
            remark=Both("收货地址只能改一次。", "A delivery address can be changed once."),
        ),
        Attribute(
            2, "fact", "fact", "money",
            tell=Wordings(("退款 {v}。", "退给{w} {v}。"), ("Refund of {v}.", "{w} gets a refund of {v}.")),
            ask=Wordings(
                ("{x}退款多少？", "{x}我们赔出去多少？"),
                ("How high is the refund in {x}?", "What did {x} cost us?"),
            ),
            remark=Both("退款走原路。", "A refund takes the way the money came."),
        ),
        Attribute(
            2, "date", "fact", "date",
            tell=Wordings(
                ("答应 {v} 前解决。", "答应{w} {v} 前解决。"),
                ("Promised for {v}.", "Promised to {w} for {v}."),
            ),
            ask=Wordings(
                ("{x}答应哪天前解决？", "{x}最晚拖到几号？"),
                ("What day was promised in {x}?", "By when does {x} have to be over?"),
            ),
            remark=Both("答应的日期不能改。", "What was promised cannot be moved."),
        ),
        Attribute(
            3, "preference", "preference", "channels",
            tell=Wordings(
                ("回访方式：{v}。", "{w}希望的回访方式：{v}。"),
                ("To be called back by {v}.", "{w} is to be called back by {v}."),
            ),
            ask=Wordings(
                ("{x}的回访方式是什么？", "{x}办完以后怎么去问满意不满意？"),
                ("How is one to be called back in {x}?", "By what means do we ask how satisfied they are after {x}?"),
            ),
            remark=Both("回访在三天内完成。", "Customers are called back within three days."),
        ),
        Attribute(
            3, "decision", "decision", "amends",
            tell=Wordings(("补偿定为{v}。", "给{w}的补偿定为{v}。"), ("As amends: {v}.", "As amends to {w}: {v}.")),
            ask=Wordings(
                ("{x}的补偿定为什么？", "{x}我们拿什么让对方消气？"),
                ("What are the amends for {x}?", "With what did we settle {x} in the end?"),
            ),
            remark=Both("补偿超限要经理批。", "Amends above the limit need the manager."),
        ),
    ),
    chatter=(
        Both("客户 {t} 又催了一次。", "The customer asked again at {t}."),
        Both("仓库回了 {n} 张照片。", "The warehouse sent {n} pictures."),
        Both("{p}转接了 {n} 分钟才接通。", "{p} was on hold for {n} minutes."),
    ),
)  # fmt: skip
