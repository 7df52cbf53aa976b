"""One synthetic run: its tasks, what is found out in them, and in which order the agent gets to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from random import Random

from eval.datasets.synthetic_office import CONTRACTS, EXPENSES, JOURNEYS
from eval.datasets.synthetic_technical import COMPLAINTS, INCIDENTS, MIGRATIONS
from eval.datasets.synthetic_words import (
    CHATTER,
    COLLEAGUES,
    MONTHS,
    VALUES,
    WHOM,
    Attribute,
    Both,
    Domain,
    Wordings,
)
from eval.types import Group, Item
from hybridmem.errors import InvalidInput

DOMAINS: tuple[Domain, ...] = (EXPENSES, INCIDENTS, CONTRACTS, MIGRATIONS, JOURNEYS, COMPLAINTS)
#: A run draws on so many domains at most, so that each has several tasks, which are alike.
_DOMAINS_PER_RUN = 3
#: How many tasks are open at a time.
_OPEN = 3
_CORRECTED = 0.6
_BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=timezone.utc)
_FIRST_DAY = datetime(2026, 6, 1, tzinfo=timezone.utc)
#: Days that dates are drawn from, none twice in a run.
_DAYS = 300


@dataclass(frozen=True, slots=True)
class Task:
    """``id`` is that of its group; ``whom`` and ``matter`` say what it is about."""

    id: str
    domain: Domain
    whom: Both
    matter: Both

    def words(self, pattern: Both) -> Both:
        """A pattern with {w} and {m}, filled in."""
        return Both(
            pattern.zh.format(w=self.whom.zh, m=self.matter.zh), pattern.en.format(w=self.whom.en, m=self.matter.en)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known about one attribute of one task: the item that holds it, and its value in words.

    ``corrected`` says that an earlier note has another value.
    """

    task: Task
    attribute: Attribute
    item: str
    value: Both
    corrected: bool


@dataclass(frozen=True, slots=True)
class _Note:
    group: str
    text: str
    type: str
    #: The place of the attribute of the domain that it tells; None: chatter.
    attribute: int | None = None
    value: Both | None = None


class Run:
    """``groups`` and ``items`` in time order, ``tasks``, and the ``answers``, one for each attribute of each task.

    ``corrections`` are pairs of items: one with a value that holds no more, and the one that says what does.
    """

    def __init__(self, generator: Random, language: str, tasks: int, nodes: int) -> None:
        self.language = language
        self._random = generator
        self._said: set[str] = set()
        self._named: dict[str, tuple[Both, ...]] = {"colleagues": self._names(COLLEAGUES)}
        self._values: dict[tuple[str, str], list[Both]] = {}
        self._days = list(range(_DAYS))
        generator.shuffle(self._days)
        self.tasks = tuple(self._make_tasks(tasks))
        stages = {task.id: self._stages(task) for task in self.tasks}
        told = {task.id: self._told(task, stages[task.id]) for task in self.tasks}
        needed = sum(len(groups) + 1 + len(told[id_]) for id_, groups in stages.items())
        if needed > nodes:
            raise InvalidInput(f"size: {tasks} tasks need at least {needed} nodes, not {nodes}")
        self._add_chatter(nodes - needed, stages, told)
        self._write(stages, told)

    def pick(self) -> str:
        """One of the languages of the run."""
        return self.language if self.language in ("zh", "en") else self._random.choice(("zh", "en"))

    def day(self, value: Both) -> Both:
        """A date as people say it."""
        day = datetime.fromisoformat(value.en)
        return Both(f"{day.year}年{day.month}月{day.day}日", f"{day.day} {MONTHS[day.month - 1]} {day.year}")

    def _make_tasks(self, count: int) -> Iterator[Task]:
        domains = self._random.sample(DOMAINS, _DOMAINS_PER_RUN)
        taken: dict[int, list[Task]] = {}
        for number in range(count):
            place = number % len(domains)
            domain, before = domains[place], taken.setdefault(place, [])
            names = self._named.setdefault(domain.whom, self._names(WHOM[domain.whom]))
            start = self._random.randrange(len(names) // 2) * 2 if not before else names.index(before[0].whom)
            # The second task is about the one whose name is like that of the first, the third about the first again.
            whom = (names * 2)[start + (1, 0, 2, 3)[(len(before) - 1) % 4] if before else start]
            free = [
                matter
                for matter in domain.matters
                if (whom, matter) not in {(task.whom, task.matter) for task in before}
            ]
            if not free:
                raise InvalidInput(f"size: there are not enough different tasks for {count} in one run")
            task = Task(f"t{number + 1}", domain, whom, self._random.choice(free))
            before.append(task)
            yield task

    def _stages(self, task: Task) -> list[Group]:
        """The sub-tasks in the order they come; the one within another right after it."""
        groups = []
        for place, stage in enumerate(task.domain.stages):
            id_ = f"{task.id}.{place + 1}"
            groups.append(Group(id_, self._in(stage), parent=task.id))
            if place == task.domain.within_stage:
                groups.append(Group(f"{id_}.1", self._in(task.domain.within), parent=id_))
        return groups

    def _told(self, task: Task, stages: list[Group]) -> list[_Note]:
        """Every attribute, in its stage, and corrections in that stage or a later one."""
        notes: list[_Note] = []
        ids = [group.id for group in stages]
        for place, attribute in enumerate(task.domain.attributes):
            group = f"{task.id}.{attribute.stage + 1}"
            value = self._value(task, attribute)
            notes.append(self._note(task, attribute.tell, attribute, place, group, value))
            if attribute.correct and self._random.random() < _CORRECTED:
                later = self._random.choice(ids[ids.index(group) :])
                value = self._value(task, attribute, besides=value)
                notes.append(self._note(task, attribute.correct, attribute, place, later, value))
        return notes

    def _note(self, task: Task, wordings: Wordings, attribute: Attribute, place: int, group: str, value: Both) -> _Note:
        language = self.pick()
        pattern: str = self._random.choice(getattr(wordings, language))
        text = pattern.format(w=getattr(task.whom, language), v=getattr(value, language))
        return _Note(group, text, attribute.type, place, value)

    def _add_chatter(self, count: int, stages: dict[str, list[Group]], told: dict[str, list[_Note]]) -> None:
        for _ in range(count):
            task = self._random.choice(self.tasks)
            group = self._random.choice(stages[task.id])
            told[task.id].append(_Note(group.id, self._chatter(task.domain), "event"))

    def _chatter(self, domain: Domain) -> str:
        """Something that was not said before in this run: a remark about the domain, or idle talk."""
        remarks = [self._in(attribute.remark) for attribute in domain.attributes]
        fresh = [remark for remark in remarks if remark not in self._said]
        if fresh and self._random.random() < 0.3:
            text = self._random.choice(fresh)
        else:
            text = self._idle(domain)
            while text in self._said:
                text = self._idle(domain)
        self._said.add(text)
        return text

    def _idle(self, domain: Domain) -> str:
        language = self.pick()
        pattern: str = getattr(self._random.choice(CHATTER + domain.chatter), language)
        return pattern.format(
            p=getattr(self._random.choice(self._named["colleagues"]), language),
            t=f"{self._random.randrange(8, 20)}:{self._random.randrange(60):02}",
            n=self._random.randrange(2, 500),
        )

    def _write(self, stages: dict[str, list[Group]], told: dict[str, list[_Note]]) -> None:
        """Puts everything into time order: the stages of a task one after the other, those of several tasks mixed."""
        groups: dict[str, Group] = {}
        items: list[Item] = []
        answers: dict[tuple[str, int], Answer] = {}
        corrections: list[tuple[str, str]] = []
        tasks = {task.id: task for task in self.tasks}
        clock = _BEGIN
        for stage in self._order(stages):
            clock += timedelta(minutes=self._random.randrange(30, 600))
            task = tasks[stage.id.partition(".")[0]]
            groups.setdefault(task.id, Group(task.id, self._in(task.words(task.domain.title)), clock))
            groups[stage.id] = Group(stage.id, stage.title, clock, stage.parent)
            for note in self._shuffled([note for note in told[task.id] if note.group == stage.id]):
                clock += timedelta(minutes=self._random.randrange(1, 40))
                item = Item(f"n{len(items) + 1}", stage.id, note.text, clock, type=note.type)
                items.append(item)
                if note.attribute is not None and note.value is not None:
                    key = (task.id, note.attribute)
                    attribute = task.domain.attributes[note.attribute]
                    if key in answers:
                        corrections.append((answers[key].item, item.id))
                    answers[key] = Answer(task, attribute, item.id, note.value, key in answers)
        self.groups, self.items = tuple(groups.values()), tuple(items)
        self.answers = tuple(answers.values())
        self.corrections = tuple(corrections)
        self.end = clock + timedelta(hours=1)

    def _order(self, stages: dict[str, list[Group]]) -> Iterator[Group]:
        waiting = [list(stages[task.id]) for task in self.tasks]
        self._random.shuffle(waiting)
        at_work = [waiting.pop() for _ in range(min(_OPEN, len(waiting)))]
        while at_work:
            place = self._random.randrange(len(at_work))
            yield at_work[place].pop(0)
            if not at_work[place]:
                at_work.pop(place)
                if waiting:
                    at_work.append(waiting.pop())

    def _shuffled(self, notes: list[_Note]) -> list[_Note]:
        """In any order, except that what tells the same attribute stays in its own."""
        order = list(range(len(notes)))
        self._random.shuffle(order)
        mixed = [notes[place] for place in order]
        told = iter([note for note in notes if note.attribute is not None])
        return [note if note.attribute is None else next(told) for note in mixed]

    def _value(self, task: Task, attribute: Attribute, besides: Both | None = None) -> Both:
        """Something that no other task of the run has there, as far as the words go round."""
        place = task.domain.attributes.index(attribute)
        taken = self._values.setdefault((task.domain.title.en, str(place)), [])
        if attribute.value == "date":
            day = _FIRST_DAY + timedelta(days=self._days.pop())
            return Both(f"{day:%Y-%m-%d}", f"{day:%Y-%m-%d}")
        if attribute.value in ("money", "count") or attribute.value.startswith("id:"):
            return self._number(attribute.value, taken)
        choices = self._named["colleagues"] if attribute.value == "person" else VALUES[attribute.value]
        fewest = min(taken.count(choice) for choice in choices if choice != besides)
        value = self._random.choice(
            [choice for choice in choices if choice != besides and taken.count(choice) == fewest]
        )
        taken.append(value)
        return value

    def _number(self, form: str, taken: list[Both]) -> Both:
        """The first of its form in the run is any; the others differ from one of those before by a single digit."""
        pattern = {"money": "####", "count": "######"}.get(form, form.removeprefix("id:"))
        while True:
            if taken:
                text = self._one_digit(pattern, self._random.choice(taken).en.replace(",", ""))
            else:
                text = "".join(str(self._random.randrange(1, 10)) if mark == "#" else mark for mark in pattern)
            if form == "money" or form == "count":
                text = f"{int(text):,}"
            value = Both(text, text)
            if value not in taken:
                taken.append(value)
                return value

    def _one_digit(self, pattern: str, text: str) -> str:
        place = self._random.choice([place for place, mark in enumerate(pattern) if mark == "#"])
        digit = self._random.choice([digit for digit in "123456789" if digit != text[place]])
        return text[:place] + digit + text[place + 1 :]

    def _names(self, names: Wordings) -> tuple[Both, ...]:
        """Names; in a run in both languages one for each, Chinese or English, whatever the language around it."""
        pairs = zip(names.zh, names.en, strict=True)
        if self.language != "mixed":
            return tuple(Both(zh, en) for zh, en in pairs)
        # Two by two, as neighbours are names that are alike.
        tongues = [tongue for _ in range(len(names.zh) // 2) for tongue in [self._random.randrange(2)] * 2]
        return tuple(Both(pair[tongue], pair[tongue]) for pair, tongue in zip(pairs, tongues, strict=True))

    def _in(self, both: Both) -> str:
        return str(getattr(both, self.pick()))
