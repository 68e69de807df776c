"""What a disk may hold after the power went out.

What was synced is there. Of what was written since, each sector is there or not, or full of garbage; the length
of the file may have followed or not. Names that came or went since the directory was last synced may have
done so or not, in their order for each name. Bytes that were not written are not harmed: SQLite counts on that
much (SQLITE_IOCAP_POWERSAFE_OVERWRITE).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import assert_never

from tests.durability.recording_vfs import (
    Acknowledged,
    Created,
    Deleted,
    Event,
    Found,
    Synced,
    SyncFailed,
    Truncated,
    Written,
)

SECTORS = (512, 4_096)


class Fate(Enum):
    """How far a write has come."""

    PENDING = "pending"  # the next sync takes it along
    DOOMED = "doomed"  # a sync failed: it may be there, and no later sync will make sure
    SYNCED = "synced"


@dataclass(slots=True, kw_only=True)
class Change:
    """Something done to a file."""

    done: Written | Truncated
    fate: Fate = Fate.PENDING


@dataclass(slots=True, kw_only=True)
class DiskFile:
    """A file: what is durable, and what was done to it since, in order."""

    durable: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)
    syncs_directory: bool = False

    def end_pending(self, fate: Fate) -> None:
        """End what is pending: a sync has succeeded or failed."""
        for change in self.changes:
            if change.fate is Fate.PENDING:
                change.fate = fate
        n_synced = next(
            (i for i, c in enumerate(self.changes) if c.fate is not Fate.SYNCED), len(self.changes)
        )
        for change in self.changes[:n_synced]:
            apply(self.durable, change.done)
        del self.changes[:n_synced]

    def seen(self) -> bytes:
        """Return what a process reads: all that was written."""
        content = bytearray(self.durable)
        for change in self.changes:
            apply(content, change.done)
        return bytes(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """How a power loss treats what was not synced."""

    keep: float
    tear: float
    trash: float
    keep_name: float
    sector: int

    @classmethod
    def draw(cls, random: Random) -> Mood:
        keep, tear, trash = random.choice(
            (
                (0.0, 0.0, 0.0),  # nothing of it made it
                (1.0, 0.0, 0.0),  # all of it did
                (0.5, 0.0, 0.0),  # whole writes, any of them
                (0.5, 0.6, 0.0),  # and some in part
                (0.9, 0.3, 0.1),  # nearly all; some is garbage
            )
        )
        return cls(
            keep=keep,
            tear=tear,
            trash=trash,
            keep_name=random.choice((0.0, 0.5, 1.0)),
            sector=random.choice(SECTORS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A directory as a crash left it: file names with their bytes, and what had been acknowledged."""

    at: int
    mood: Mood
    files: dict[str, bytes]
    acknowledged: tuple[Hashable, ...]

    def write(self, folder: Path) -> None:
        """Put the files into an empty directory."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


class Disk:
    """A disk that is fed a log, and what it could hold if the power went out now."""

    def __init__(self) -> None:
        self.files: dict[int, DiskFile] = {}
        self.names: dict[str, int] = {}
        self.pending_names: list[tuple[str, int | None]] = []
        self.acknowledged: list[Hashable] = []

    def feed(self, event: Event) -> None:
        """Apply the next event of the log."""
        match event:
            case Created(name=name, file=file, syncs_directory=syncs):
                self.files[file] = DiskFile(syncs_directory=syncs)
                self.pending_names.append((name, file))
            case Found(name=name, file=file, content=content):
                self.files[file] = DiskFile(durable=bytearray(content))
                self.names[name] = file
            case Written(file=file) | Truncated(file=file):
                self.files[file].changes.append(Change(done=event))
            case Synced(file=file):
                self.files[file].end_pending(Fate.SYNCED)
                if self.files[file].syncs_directory:
                    self.files[file].syncs_directory = False
                    self._sync_directory()
            case SyncFailed(file=file):
                self.files[file].end_pending(Fate.DOOMED)
            case Deleted(name=name, is_durable=is_durable):
                self.pending_names.append((name, None))
                if is_durable:
                    self._sync_directory()
            case Acknowledged(mark=mark):
                self.acknowledged.append(mark)
            case _:
                assert_never(event)

    def _sync_directory(self) -> None:
        apply_names(self.names, self.pending_names)
        self.pending_names.clear()

    def crash(self, random: Random, *, at: int = 0) -> Image:
        """Return one of the things that the disk may hold now."""
        mood = Mood.draw(random)
        names = dict(self.names)
        apply_names(names, (c for c in self.pending_names if random.random() < mood.keep_name))
        return Image(
            at=at,
            mood=mood,
            files={name: survivor(self.files[file], mood, random) for name, file in names.items()},
            acknowledged=tuple(self.acknowledged),
        )

    def seen(self) -> dict[str, bytes]:
        """Return what the next process finds when this one dies and the power stays on."""
        names = dict(self.names)
        apply_names(names, self.pending_names)
        return {name: self.files[file].seen() for name, file in names.items()}


def apply(content: bytearray, change: Written | Truncated) -> None:
    """Do to bytes what was done to a file."""
    if isinstance(change, Truncated):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    gap = change.offset - len(content)
    if gap > 0:
        content.extend(bytes(gap))
    content[change.offset : change.offset + len(change.content)] = change.content


def apply_names(names: dict[str, int], changes: Iterable[tuple[str, int | None]]) -> None:
    """Apply names that came and went."""
    for name, file in changes:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def survivor(file: DiskFile, mood: Mood, random: Random) -> bytes:
    """Return what a file may hold: what is durable, and of the rest what luck left."""
    content = bytearray(file.durable)
    for change in file.changes:
        done = change.done
        if change.fate is Fate.SYNCED:
            apply(content, done)
        elif random.random() >= mood.keep:
            pass
        elif isinstance(done, Written) and random.random() < mood.tear:
            for piece in sectors(done, mood.sector):
                if random.random() < mood.trash:
                    garbage = random.randbytes(len(piece.content))
                    apply(content, Written(file=0, offset=piece.offset, content=garbage))
                elif random.random() < 0.5:
                    apply(content, piece)
        else:
            apply(content, done)
    return bytes(content)


def sectors(written: Written, size: int) -> Iterator[Written]:
    """Cut a write where the disk's sectors end."""
    start, end = written.offset, written.offset + len(written.content)
    at = start
    while at < end:
        stop = min(end, (at // size + 1) * size)
        yield Written(
            file=written.file, offset=at, content=written.content[at - start : stop - start]
        )
        at = stop


def crash_points(events: Sequence[Event], n: int, random: Random, window: range) -> list[int]:
    """Return n places of a log, half of them right behind an acknowledgement, in order."""
    behind = [at for at in window if at > 0 and isinstance(events[at - 1], Acknowledged)]
    return sorted(
        random.choice(behind) if behind and i % 2 else random.choice(window) for i in range(n)
    )


def images(
    events: Sequence[Event], n: int, *, seed: int, window: range | None = None
) -> Iterator[Image]:
    """Return n images of a log, or of a part of it; the same for the same seed."""
    random = Random(seed)
    disk = Disk()
    fed = 0
    window = range(len(events) + 1) if window is None else window
    for at in crash_points(events, n, random, window):
        for event in events[fed:at]:
            disk.feed(event)
        fed = at
        yield disk.crash(random, at=at)
