from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .errors import SpoolFullError

MAX_REFUSED_BYTES = 16 * 1024 * 1024
# How long a write waits for other processes, in seconds.
BUSY_TIMEOUT = 30.0
# In pages of 4 KiB. If the database has more than KEPT_PAGES free pages, each removal returns up to FREED_PAGES of
# them to the file system.
KEPT_PAGES = 1024
FREED_PAGES = 512
SCHEMA = [
    # `autoincrement` prevents the ids of removed lines from being reused.
    "create table if not exists lines (id integer primary key autoincrement, line text not null)",
    "create table if not exists size (bytes integer not null)",
    "insert into size select 0 where not exists (select 1 from size)",
    """create trigger if not exists line_added after insert on lines begin
         update size set bytes = bytes + length(cast(new.line as blob)) + 1; end""",
    """create trigger if not exists line_removed after delete on lines begin
         update size set bytes = bytes - length(cast(old.line as blob)) - 1; end""",
]


class _Waiting:
    def __init__(self, line: str) -> None:
        self.line = line
        self.is_done = False
        self.error: Exception | None = None


class Spool:
    """Lines in a SQLite database until they are processed and removed.

    Threads and processes can share a directory. Lines that threads append together are committed and synced together.
    """

    def __init__(self, directory: str | os.PathLike[str], max_bytes: int) -> None:
        self.directory = Path(directory)
        self._max_bytes = max_bytes
        self._pid = os.getpid()
        self._waiting: list[_Waiting] = []
        self._waiting_lock = threading.Lock()
        self._lock = threading.Lock()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._db = connect(self.directory / "spool.db", BUSY_TIMEOUT)
        try:
            self._create()
            self._sending = connect(self.directory / "sending.lock", 0)
        except BaseException:
            self._db.close()
            raise

    def append(self, line: str) -> None:
        """Returns once the line is on disk and survives any crash. Raises `SpoolFullError`, or an error of SQLite."""
        self._check_process()
        one = _Waiting(line)
        with self._waiting_lock:
            self._waiting.append(one)
        with self._lock:
            # Another thread may already have written this line.
            if not one.is_done:
                self._write_waiting()
        if one.error is not None:
            raise one.error

    def read(self, after: int, limit: int) -> list[tuple[int, str]]:
        with self._lock:
            return self._db.execute(
                "select id, line from lines where id > ? order by id limit ?", (after, limit)
            ).fetchall()

    def remove(self, ids: Sequence[int]) -> None:
        with self._change() as db:
            db.executemany("delete from lines where id = ?", [(id,) for id in ids])
            # Shrinks the file step by step after an outage, but keeps some free pages for new lines.
            ((free,),) = db.execute("pragma freelist_count").fetchall()
            if free > KEPT_PAGES:
                # Frees one page per statement, because older versions of `sqlite3` stop after the first page.
                for _ in range(FREED_PAGES):
                    db.execute("pragma incremental_vacuum(1)")

    def put_aside(self, lines: Sequence[str]) -> None:
        """Appends lines to `refused.ndjson`. When full, that file replaces `refused.1.ndjson`, so old lines are lost."""
        append_refused(self.directory / "refused.ndjson", lines)

    @property
    def bytes(self) -> int:
        return self._number("select bytes from size")

    @property
    def first(self) -> int:
        """Id of the oldest line, or 0 if there are none."""
        return self._number("select coalesce(min(id), 0) from lines")

    @property
    def last(self) -> int:
        """Id of the newest line, or 0 if there are none."""
        return self._number("select coalesce(max(id), 0) from lines")

    @contextmanager
    def sending(self) -> Iterator[bool]:
        """Yields True in only one process at a time. When that process is killed, another one can send."""
        try:
            self._sending.execute("begin exclusive")
        except sqlite3.OperationalError:
            yield False
            return
        try:
            yield True
        finally:
            self._sending.execute("rollback")

    def close(self) -> None:
        with self._lock:
            self._sending.close()
            self._db.close()

    def _create(self) -> None:
        db = self._db
        db.execute("pragma auto_vacuum = incremental")
        use_wal(db)
        db.execute("pragma synchronous = full")
        # Without this, macOS may leave data in the disk's cache.
        db.execute("pragma fullfsync = on")
        db.execute(f"pragma journal_size_limit = {KEPT_PAGES * 4096}").fetchall()
        with self._change():
            for statement in SCHEMA:
                db.execute(statement)

    def _write_waiting(self) -> None:
        with self._waiting_lock:
            group, self._waiting = self._waiting, []
        try:
            self._db.execute("begin immediate")
            try:
                ((total,),) = self._db.execute("select bytes from size").fetchall()
                for one in group:
                    size = size_of(one.line)
                    if total + size > self._max_bytes:
                        one.error = SpoolFullError(self._max_bytes)
                    else:
                        total += size
                        self._db.execute("insert into lines (line) values (?)", (one.line,))
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
        except BaseException as error:
            for one in group:
                one.error = error if isinstance(error, Exception) else OSError("The write was interrupted.")
            if not isinstance(error, Exception):
                raise
        finally:
            for one in group:
                one.is_done = True

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield self._db
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    def _number(self, query: str) -> int:
        self._check_process()
        with self._lock:
            ((number,),) = self._db.execute(query).fetchall()
        return int(number)

    def _check_process(self) -> None:
        # SQLite connections must not be used after a fork.
        if self._pid != os.getpid():
            raise RuntimeError("This reporter belongs to the parent process. Create one in each process, after the fork.")


def size_of(line: str) -> int:
    return len(line.encode()) + 1


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    try:
        # Creates the file here, because SQLite would create one that other users can read. O_EXCL avoids opening an
        # existing file, because closing it again would drop this process's locks on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def use_wal(db: sqlite3.Connection) -> None:
    give_up_at = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            db.execute("pragma journal_mode = wal").fetchall()
            return
        except sqlite3.OperationalError as error:
            # SQLite ignores the busy timeout while another process is also switching to WAL, so wait here.
            if "locked" not in str(error) or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)


def append_refused(path: Path, lines: Sequence[str]) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        size = os.fstat(file).st_size
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        except OSError:
            # Removes a partial line, because the next line would be appended to it.
            os.ftruncate(file, size)
            raise
        if os.fstat(file).st_size > MAX_REFUSED_BYTES:
            os.replace(path, path.with_name("refused.1.ndjson"))
    finally:
        os.close(file)
