"""Synthetic tasks of an office: reimbursements, journeys, contracts."""

from __future__ import annotations

from eval.datasets.synthetic_words import Attribute, Both, Domain, Wordings

EXPENSES = Domain(
    whom="people",
    matters=(
        Both("东京会议", "Tokyo conference"),
        Both("客户拜访", "client visit"),
        Both("团队团建", "team outing"),
        Both("显示器采购", "purchase of monitors"),
        Both("上海培训", "Shanghai course"),
        Both("搬家补贴", "relocation"),
    ),
    title=Both("报销：{w}，{m}", "Reimbursement: {w}, {m}"),
    task=Both("{w}{m}的报销", "{w}'s reimbursement for the {m}"),
    stages=(
        Both("收集票据", "Collect the papers"),
        Both("填写申请", "Fill in the form"),
        Both("财务审核", "Review by finance"),
        Both("跟进打款", "Follow the transfer"),
    ),
    within=Both("补交材料", "Hand in what was missing"),
    within_stage=2,
    attributes=(
        Attribute(
            0, "identifier", "fact", "id:INV-#####",
            tell=Wordings(
                ("发票号 {v} 已录入。", "{w}的发票号是 {v}。"),
                ("Invoice {v} is on file.", "{w}'s invoice is {v}."),
            ),
            ask=Wordings(
                ("{x}的发票号是什么？", "{x}交的是哪张票？"),
                ("What is the invoice of {x}?", "Which document backs {x}?"),
            ),
            remark=Both("发票号要填在表格的第二栏。", "The invoice goes into the second column."),
        ),
        Attribute(
            1, "fact", "fact", "money",
            tell=Wordings(("申请金额 {v}。", "{w}申请的金额为 {v}。"), ("Claimed {v} in all.", "{w} claimed {v}.")),
            correct=Wordings(
                ("更正：重新核算，金额应为 {v}。", "对过小票，申请金额改成 {v}。"),
                ("Correction: added up again, {v} is claimed.", "After a check of the slips, now {v} is claimed."),
            ),
            ask=Wordings(
                ("{x}申请的金额是多少？", "{x}最后一共要付多少钱？"),
                ("How much is claimed in {x}?", "What sum do we owe in the end for {x}?"),
            ),
            remark=Both("申请金额超过一万要加签。", "Whatever is claimed above ten thousand takes a second signature."),
        ),
        Attribute(
            1, "fact", "fact", "id:CC-####",
            tell=Wordings(
                ("成本中心 {v}。", "{w}挂在成本中心 {v}。"),
                ("Cost centre {v}.", "{w} belongs to cost centre {v}."),
            ),
            ask=Wordings(
                ("{x}的成本中心是哪个？", "{x}算在谁的账上？"),
                ("Which cost centre does {x} belong to?", "Whose account bears {x}?"),
            ),
            remark=Both("成本中心的名单每季度更新。", "The list of cost centres changes every quarter."),
        ),
        Attribute(
            2, "fact", "event", "refusals",
            tell=Wordings(
                ("财务退回，原因是{v}。", "{w}的单子被财务退回：{v}。"),
                ("Finance sent it back: {v}.", "Finance sent {w}'s form back, as {v}."),
            ),
            ask=Wordings(
                ("财务退回{x}的原因是什么？", "{x}哪里不合格？"),
                ("Why did finance send {x} back?", "What was held against {x}?"),
            ),
            remark=Both("财务退回后十天内要处理。", "What finance sent back has to be dealt with in ten days."),
        ),
        Attribute(
            2, "fact", "fact", "person",
            tell=Wordings(
                ("审批人是{v}。", "{w}这单的审批人：{v}。"),
                ("The approver is {v}.", "{v} is the approver for {w}."),
            ),
            correct=Wordings(
                ("审批人换了，现在是{v}。", "更正：审批人不是之前那位，是{v}。"),
                ("The approver has changed, it is {v} now.", "Correction: not the one before, the approver is {v}."),
            ),
            ask=Wordings(
                ("{x}的审批人是谁？", "{x}目前该找谁签字？"),
                ("Who is the approver of {x}?", "Whose consent does {x} need at present?"),
            ),
            remark=Both("审批人休假时由副手代签。", "A deputy stands in when the approver is away."),
        ),
        Attribute(
            3, "date", "fact", "date",
            tell=Wordings(
                ("打款日定在 {v}。", "{w}的打款日是 {v}。"),
                ("Transfer set for {v}.", "The transfer to {w} is set for {v}."),
            ),
            correct=Wordings(
                ("打款日推迟到 {v}。", "银行通知：打款日改为 {v}。"),
                ("Transfer put off to {v}.", "The bank says that the transfer moves to {v}."),
            ),
            ask=Wordings(
                ("{x}的打款日是哪天？", "{x}什么时候能拿到钱？"),
                ("What day is the transfer of {x} set for?", "When does the money of {x} arrive?"),
            ),
            remark=Both("打款日遇假期顺延。", "A transfer set for a holiday waits until the next working day."),
        ),
        Attribute(
            3, "preference", "preference", "channels",
            tell=Wordings(
                ("以后通知用{v}。", "{w}喜欢用{v}收通知。"),
                ("Wants to be told by {v}.", "{w} wants to be told by {v}."),
            ),
            ask=Wordings(
                ("{x}的通知用什么方式？", "{x}有了进展该怎么联系当事人？"),
                ("How should one be told about {x}?", "There is news on {x}: how to reach the claimant?"),
            ),
            remark=Both("通知模板有三种。", "There are three templates for what people are told."),
        ),
        Attribute(
            3, "decision", "decision", "ways",
            tell=Wordings(("决定：{v}。", "{w}这单决定{v}。"), ("Decided to {v}.", "For {w} it was decided to {v}.")),
            ask=Wordings(
                ("{x}的决定是什么？", "{x}后来打算怎么走？"),
                ("What was decided in {x}?", "Which way forward was chosen for {x}?"),
            ),
            remark=Both("决定要写进纪要。", "What was decided goes into the minutes."),
        ),
    ),
    chatter=(
        Both("扫描了 {n} 张小票，都清楚。", "Scanned {n} slips, all of them legible."),
        Both("报销系统 {t} 维护，晚点再试。", "The expense system is down until {t}."),
        Both("{p}问差旅标准，发了第 {n} 条。", "{p} asked about the travel rules, sent rule {n}."),
    ),
)  # fmt: skip

JOURNEYS = Domain(
    whom="people",
    matters=(
        Both("柏林展会", "Berlin fair"),
        Both("里昂工厂", "Lyon plant"),
        Both("新加坡路演", "Singapore roadshow"),
        Both("西安考察", "Xi'an survey"),
        Both("大阪年会", "Osaka annual meeting"),
        Both("迪拜谈判", "Dubai talks"),
    ),
    title=Both("差旅：{w}，{m}", "Journey: {w}, {m}"),
    task=Both("{w}去{m}的行程", "{w}'s journey to the {m}"),
    stages=(
        Both("查航班", "Look for flights"),
        Both("订住宿", "Book a bed"),
        Both("签证和保险", "Visa and insurance"),
        Both("出发前确认", "Check before leaving"),
    ),
    within=Both("改签", "Rebooking"),
    within_stage=0,
    attributes=(
        Attribute(
            0, "identifier", "fact", "id:KX####",
            tell=Wordings(
                ("航班订好了，{v}。", "{w}的航班是 {v}。"),
                ("Flight {v} is booked.", "{w} is on flight {v}."),
            ),
            ask=Wordings(
                ("{x}的航班是哪一班？", "{x}坐的是哪趟飞机？"),
                ("Which flight is booked for {x}?", "What does one board on {x}?"),
            ),
            remark=Both("航班延误两小时以上可以退票。", "A booked flight can be given back when two hours late."),
        ),
        Attribute(
            0, "date", "fact", "date",
            tell=Wordings(
                ("出发日期 {v}。", "{w}的出发日期为 {v}。"),
                ("Departure on {v}.", "{w}'s departure is on {v}."),
            ),
            correct=Wordings(
                ("会期有变，出发日期改为 {v}。", "更正：出发日期是 {v}，不是之前写的。"),
                ("The dates have moved, departure is on {v} now.", "Correction: departure on {v}, not as noted."),
            ),
            ask=Wordings(
                ("{x}的出发日期是哪天？", "{x}什么时候动身？"),
                ("When is the departure of {x}?", "What day does {x} begin after all?"),
            ),
            remark=Both("出发日期前三天要打印行程单。", "Print the plan three days before a departure."),
        ),
        Attribute(
            0, "preference", "preference", "seats",
            tell=Wordings(("座位要{v}。", "{w}的座位要{v}。"), ("The seat should be {v}.", "{w} wants a seat {v}.")),
            ask=Wordings(
                ("{x}的座位有什么要求？", "{x}值机时怎么选位子？"),
                ("What seat is wanted for {x}?", "At check-in for {x}, where to sit?"),
            ),
            remark=Both("座位起飞前四十八小时开放。", "Seats open forty-eight hours before."),
        ),
        Attribute(
            1, "fact", "fact", "hotels",
            tell=Wordings(("住{v}。", "{w}住在{v}。"), ("Room at {v}.", "{w} has a room at {v}.")),
            correct=Wordings(
                ("原来那家满了，换到{v}。", "更正：不住之前那家，住{v}。"),
                ("The other one is full, the room is at {v} now.", "Correction: room at {v} in place of the first."),
            ),
            ask=Wordings(
                ("{x}住哪里？", "{x}现在该把行李送到哪家？"),
                ("Where is the room for {x}?", "Which place do we send the luggage of {x} to, as things stand?"),
            ),
            remark=Both("住的地方要能开专票。", "Rooms have to come with a proper bill."),
        ),
        Attribute(
            1, "fact", "fact", "money",
            tell=Wordings(("预算上限 {v}。", "{w}的预算上限是 {v}。"), ("Budget of {v}.", "{w} has a budget of {v}.")),
            ask=Wordings(
                ("{x}的预算上限是多少？", "{x}最多能花多少？"),
                ("What budget does {x} have?", "How far can spending on {x} go?"),
            ),
            remark=Both("预算上限每年一月调整。", "Budgets are looked at every January."),
        ),
        Attribute(
            2, "identifier", "fact", "id:POL-##-####",
            tell=Wordings(
                ("保险单号 {v}。", "{w}的保险单号是 {v}。"),
                ("Insurance policy {v}.", "{w}'s insurance policy is {v}."),
            ),
            ask=Wordings(
                ("{x}的保险单号是什么？", "{x}出了意外报哪个号码理赔？"),
                ("What is the insurance policy of {x}?", "Which number do we quote after an accident on {x}?"),
            ),
            remark=Both("保险单号印在卡片背面。", "The insurance policy is on the back of the card."),
        ),
        Attribute(
            3, "preference", "preference", "food",
            tell=Wordings(("餐食{v}。", "{w}的餐食要求：{v}。"), ("Meals: {v}.", "Meals for {w}: {v}.")),
            ask=Wordings(
                ("{x}的餐食要求是什么？", "{x}请客吃饭时要避开什么？"),
                ("What about meals on {x}?", "What should a host know who invites to dinner on {x}?"),
            ),
            remark=Both("餐食要提前一天报。", "Meals are to be named one day before."),
        ),
        Attribute(
            3, "decision", "decision", "transport",
            tell=Wordings(("定了：{v}。", "{w}这趟定了{v}。"), ("Settled: {v}.", "Settled for {w}: {v}.")),
            ask=Wordings(
                ("{x}怎么定的？", "{x}的交通最后选了什么方案？"),
                ("What was settled for {x}?", "How does one get there on {x}, by the last word?"),
            ),
            remark=Both("定了的行程改动要写说明。", "A settled journey is changed in writing only."),
        ),
    ),
    chatter=(
        Both("比了 {n} 家票价，差别不大。", "Compared {n} fares, hardly any difference."),
        Both("{p}要一份 {n} 页的行程单。", "{p} asks for the plan on {n} pages."),
        Both("领事馆 {t} 才开门。", "The consulate opens at {t} only."),
    ),
)  # fmt: skip

CONTRACTS = Domain(
    whom="companies",
    matters=(
        Both("仓储合同", "storage contract"),
        Both("印刷合同", "printing contract"),
        Both("保洁合同", "cleaning contract"),
        Both("云服务合同", "hosting contract"),
        Both("车辆租赁合同", "fleet lease"),
    ),
    title=Both("合同：{w}，{m}", "Contract: {w}, {m}"),
    task=Both("和{w}的{m}", "the {m} with {w}"),
    stages=(
        Both("起草", "Drafting"),
        Both("谈价格", "Talk about price"),
        Both("法务审阅", "Legal review"),
        Both("签署", "Signing"),
    ),
    within=Both("争议条款", "Disputed clause"),
    within_stage=2,
    attributes=(
        Attribute(
            0, "identifier", "fact", "id:HT-2026-####",
            tell=Wordings(
                ("合同编号 {v}。", "{w}的合同编号为 {v}。"),
                ("Contract number {v}.", "{w}'s contract number is {v}."),
            ),
            ask=Wordings(
                ("{x}的编号是什么？", "{x}归档时用哪个号？"),
                ("What is the contract number of {x}?", "Under what do we file {x}?"),
            ),
            remark=Both("合同编号由法务统一发放。", "Contract numbers are given out by legal."),
        ),
        Attribute(
            1, "fact", "fact", "money",
            tell=Wordings(("报价 {v}。", "{w}报价 {v}。"), ("Offer of {v}.", "{w} made an offer of {v}.")),
            correct=Wordings(
                ("谈下来了，新报价 {v}。", "更正：上一个报价作废，现在是 {v}。"),
                ("Talked down, the offer is {v} now.", "Correction: the last offer is void, it is {v}."),
            ),
            ask=Wordings(
                ("{x}的报价是多少？", "{x}如今对方要多少钱？"),
                ("What is the offer for {x}?", "How much would {x} cost us as of today?"),
            ),
            remark=Both("报价有效期三十天。", "An offer holds for thirty days."),
        ),
        Attribute(
            1, "fact", "fact", "terms",
            tell=Wordings(("付款方式：{v}。", "{w}的付款方式是{v}。"), ("Payment {v}.", "Payment to {w}: {v}.")),
            ask=Wordings(
                ("{x}的付款方式是什么？", "{x}的钱怎么给？"),
                ("What is agreed on payment for {x}?", "In what steps does money flow under {x}?"),
            ),
            remark=Both("付款方式写在第五条。", "Payment is in article five."),
        ),
        Attribute(
            2, "fact", "event", "clauses",
            tell=Wordings(("双方争议在{v}。", "{w}对{v}有争议。"), ("In dispute: {v}.", "{w} disputes {v}.")),
            ask=Wordings(
                ("{x}的争议在哪里？", "{x}卡在哪一点上谈不拢？"),
                ("What is in dispute in {x}?", "On which point do the two sides of {x} not come together?"),
            ),
            remark=Both("争议由本地法院管辖。", "Disputes go to the local court."),
        ),
        Attribute(
            2, "fact", "fact", "person",
            tell=Wordings(
                ("对方谈判代表是{v}。", "{w}的谈判代表：{v}。"),
                ("Their negotiator is {v}.", "{v} is the negotiator of {w}."),
            ),
            correct=Wordings(
                ("对方换人，谈判代表现在是{v}。", "更正：谈判代表是{v}。"),
                ("They changed: the negotiator is {v} now.", "Correction: {v} is the negotiator."),
            ),
            ask=Wordings(
                ("{x}的谈判代表是谁？", "{x}眼下该跟谁谈？"),
                ("Who is the negotiator of {x}?", "Whom do we call about {x} these days?"),
            ),
            remark=Both("谈判代表要有授权书。", "A negotiator needs a letter of authority."),
        ),
        Attribute(
            3, "date", "fact", "date",
            tell=Wordings(("签约日 {v}。", "{w}的签约日定在 {v}。"), ("Signing on {v}.", "{w}: signing on {v}.")),
            correct=Wordings(
                ("签约日挪到 {v}。", "对方请求，签约日改到 {v}。"),
                ("Signing moved to {v}.", "At their request the signing is on {v}."),
            ),
            ask=Wordings(
                ("{x}的签约日是哪天？", "{x}什么时候落笔？"),
                ("When is the signing of {x}?", "By what day does {x} become binding?"),
            ),
            remark=Both("签约日要避开月末。", "No signing at the end of a month."),
        ),
        Attribute(
            3, "preference", "preference", "channels",
            tell=Wordings(
                ("文件往来走{v}。", "{w}希望文件走{v}。"),
                ("Papers should come by {v}.", "{w} wants papers by {v}."),
            ),
            ask=Wordings(
                ("{x}的文件走什么渠道？", "{x}的稿子怎么送过去对方最高兴？"),
                ("How should papers of {x} come?", "Which way of contact does the partner in {x} like best?"),
            ),
            remark=Both("文件一式三份。", "Papers come in three copies."),
        ),
        Attribute(
            3, "decision", "decision", "deals",
            tell=Wordings(("结论：{v}。", "关于{w}的结论：{v}。"), ("Conclusion: {v}.", "Conclusion on {w}: {v}.")),
            ask=Wordings(
                ("{x}的结论是什么？", "{x}我们最终选了哪条路？"),
                ("What is the conclusion on {x}?", "What did we make up our minds to do about {x}?"),
            ),
            remark=Both("结论要报备。", "A conclusion has to be reported upwards."),
        ),
    ),
    chatter=(
        Both("第 {n} 稿改了错别字。", "Draft {n}: mended the spelling."),
        Both("{p}要求 {t} 前给意见。", "{p} wants comments before {t}."),
        Both("打印了 {n} 份带水印的副本。", "Printed {n} copies with a watermark."),
    ),
)  # fmt: skip
