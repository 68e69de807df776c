"""The tables, as numbered steps from nothing to now.

Everything a turn says is a page in `log`, in the order of arrival, found through one narrow index by
(session, strand, seq). Strand 0 is the session's history; strand n the journal of its n-th turn; the request of a
turn that has not begun lies under minus its number. An append-only table with a narrow index writes the
same few pages for a session of a thousand turns as for a new one; rows kept together by session would not.

Every table is strict, so that a cell holds what its column says. `turns.pages` says how long the journal of a turn
was when it ended: the links of a strand cannot tell pages cut off its end from pages never written.

    row class            owner          reclaimed by
    sessions             itself         never: a deleted one stays as a tombstone without payload
    turns                session        its session's delete
    log, strand 0        session        its session's delete, once no fork shares it
    log, other strands   turn           vacuum, when the turn ended longer ago than the retention
    bodies, blobs        uses           whatever removes the last use; a blob never used, vacuum after a day
    uses                 log            with its page
    waits, inbox         turn, session  vacuum, once ended; its session's delete
    workers              process        its leave; vacuum, when the process is dead
    news                 nothing        vacuum, all but the last thousands
"""

from __future__ import annotations

# "wndl": tells a windlass file from any other SQLite file.
APPLICATION_ID = 0x776E646C

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

    CREATE TABLE workers (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        until_ms INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE sessions (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        deleted_ms INTEGER,
        generation INTEGER NOT NULL,
        owner TEXT,
        head INTEGER NOT NULL,
        link BLOB NOT NULL,
        active INTEGER,
        arrivals INTEGER NOT NULL,
        parent INTEGER,
        parent_head INTEGER,
        usage BLOB
    ) STRICT;
    CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
    CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;

    CREATE TABLE turns (
        no INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        id TEXT NOT NULL,
        state TEXT NOT NULL,
        arrived INTEGER NOT NULL,
        strand INTEGER,
        agent TEXT NOT NULL,
        digest TEXT NOT NULL,
        submitter TEXT,
        cancel TEXT,
        takeovers INTEGER NOT NULL,
        takeover_mark INTEGER NOT NULL,
        answered INTEGER NOT NULL,
        head INTEGER,
        commit_digest TEXT,
        pages INTEGER,
        ended_ms INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX turns_by_id ON turns (session, id);
    CREATE INDEX turns_open ON turns (session, arrived) WHERE state <> 'done';

    CREATE TABLE log (
        no INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        strand INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        link BLOB NOT NULL,
        page BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX log_by_strand ON log (session, strand, seq);

    CREATE TABLE bodies (
        no INTEGER PRIMARY KEY,
        digest BLOB NOT NULL,
        is_blob INTEGER NOT NULL,
        kept_ms INTEGER NOT NULL,
        size INTEGER NOT NULL,
        data BLOB
    ) STRICT;
    CREATE UNIQUE INDEX bodies_by_digest ON bodies (digest, is_blob);
    CREATE TABLE uses (
        log INTEGER NOT NULL,
        body INTEGER NOT NULL,
        PRIMARY KEY (log, body)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX uses_by_body ON uses (body);

    CREATE TABLE waits (
        no INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        consumed INTEGER NOT NULL,
        expires_ms INTEGER,
        wait BLOB NOT NULL,
        answer BLOB
    ) STRICT;
    CREATE INDEX waits_by_turn ON waits (turn);
    CREATE INDEX waits_open ON waits (expires_ms) WHERE state = 'open';

    CREATE TABLE inbox (
        no INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        id TEXT NOT NULL,
        arrived INTEGER NOT NULL,
        state TEXT NOT NULL,
        due TEXT NOT NULL,
        digest TEXT NOT NULL,
        turn INTEGER,
        generation INTEGER,
        ended_ms INTEGER,
        item BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX inbox_by_id ON inbox (session, id);
    CREATE INDEX inbox_waiting ON inbox (session, arrived) WHERE state IN ('pending', 'taken');
    """,
    # What is due is asked for every moment, so it is answered from indexes that hold only what is unfinished.
    """
    DROP INDEX inbox_waiting;
    CREATE INDEX inbox_waiting ON inbox (session, arrived, state, due)
        WHERE state IN ('pending', 'taken');
    CREATE INDEX turns_cancelled ON turns (session) WHERE state = 'running' AND cancel IS NOT NULL;
    """,
    # With this step pages of journals are of format 2. Unfinished turns of format 1 are refused before it.
    """
    ALTER TABLE turns ADD COLUMN asked_by TEXT;
    """,
    # What errands begin belongs to a tree; a wait knows behind which page it was opened; `news` is what changed without
    # a page, each behind the page of the log that was the last then. Of unfinished turns an index says enough to pass
    # over those of other agents.
    """
    ALTER TABLE sessions ADD COLUMN kind TEXT NOT NULL DEFAULT 'chat';
    ALTER TABLE sessions ADD COLUMN started_by INTEGER;
    ALTER TABLE sessions ADD COLUMN root INTEGER;
    CREATE INDEX sessions_by_starter ON sessions (started_by) WHERE started_by IS NOT NULL;
    CREATE INDEX sessions_by_root ON sessions (root) WHERE root IS NOT NULL;

    ALTER TABLE waits ADD COLUMN page INTEGER NOT NULL DEFAULT 0;

    DROP INDEX turns_open;
    CREATE INDEX turns_open ON turns (session, arrived, state, agent) WHERE state <> 'done';

    CREATE TABLE news (
        no INTEGER PRIMARY KEY,
        after INTEGER NOT NULL,
        kind TEXT NOT NULL,
        session INTEGER,
        turn INTEGER,
        wait INTEGER,
        worker TEXT
    ) STRICT;
    """,
    # A session has a label, and knows the turn that began it; of what errands begin most is deleted after a while, so
    # tombstones are left out of what is looked at. A signal and the wait that asks for it are found by name;
    # signals are in an index of their own, because nothing is due because of them. Nor is it because of a turn that is
    # parked: thousands may be, for days, so they are in an index of their own, too.
    """
    ALTER TABLE sessions ADD COLUMN label TEXT;
    ALTER TABLE sessions ADD COLUMN started_in INTEGER;
    CREATE INDEX sessions_by_label ON sessions (label, id) WHERE label IS NOT NULL AND deleted_ms IS NULL;
    CREATE INDEX sessions_by_kind ON sessions (kind, id) WHERE kind <> 'chat' AND deleted_ms IS NULL;
    DROP INDEX sessions_by_root;
    CREATE INDEX sessions_by_root ON sessions (root, id) WHERE root IS NOT NULL AND deleted_ms IS NULL;

    ALTER TABLE inbox ADD COLUMN signal TEXT;
    DROP INDEX inbox_waiting;
    CREATE INDEX inbox_waiting ON inbox (session, arrived, state, due)
        WHERE state IN ('pending', 'taken') AND due <> 'asked';
    CREATE INDEX inbox_asked ON inbox (session, signal, arrived) WHERE state = 'pending' AND due = 'asked';

    ALTER TABLE waits ADD COLUMN signal TEXT;
    CREATE INDEX waits_open_by_turn ON waits (turn, signal) WHERE state = 'open';

    DROP INDEX turns_open;
    CREATE INDEX turns_open ON turns (session, arrived, state, agent) WHERE state <> 'done' AND state <> 'parked';
    CREATE INDEX turns_parked ON turns (session, agent) WHERE state = 'parked';
    """,
)
VERSION = len(MIGRATIONS)
# The first version whose unfinished turns this release can go on with.
GOES_ON_FROM = 3
TABLES = frozenset(
    {"meta", "workers", "sessions", "turns", "log", "bodies", "uses", "waits", "inbox", "news"}
)
