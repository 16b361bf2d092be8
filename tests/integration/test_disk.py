"""Memory files on disks that are full, fail to take what is written, or do not give it back: the server lives where it
can, and no client gets what the disk did not keep."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.faults import BLOCKS_ERROR, DISK_FAILED, FSYNC_ERROR, PUNCH_ERROR, WRITE_ERROR, Faults
from harness.server import TIME_FACTOR, Server, ServerError, begin_child
from harness.wire import Stream

from integration.conftest import stats
from integration.test_faults import SANITIZED
from integration.test_mappings import OUT_OF_MEMORY, wait_for

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer maps memory of its own, which nothing can be put before")

EX_IOERR = 74


@contextmanager
def on_small_disk(
    tmp_path: Path, mib: int, *options: str, faults: Faults | None = None
) -> Iterator[tuple[Server, Path]]:
    """A server with its memory file on a tmpfs of its own, and that one's folder as seen from here."""
    disk = tmp_path / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(disk)]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts in a user's name space here")
    preload = "" if faults is None else " ".join(f"{k}={v}" for k, v in faults.environment().items())
    script = f'mount -t tmpfs -o size={mib}m tmpfs {disk} && exec env {preload} {tandem_binary()} memcached "$@"'
    server = Server(
        ["unshare", "-Urm", "sh", "-c", script, "sh"],
        "-e",
        str(disk / "memory"),
        *options,
        unix_path=tmp_path.parent / f"{tmp_path.name}.sock",
        run_as="root",
    )
    try:
        yield server, Path(f"/proc/{server.pid}/root{disk}")
    finally:
        server.close()


def fill_up(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("ab") as file:
        try:
            while True:
                os.write(file.fileno(), b"b" * 65536)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    return ballast


def store(stream: Stream, first: int, end: int, bytes_each: int = 50_000) -> list[bytes]:
    value = b"v" * bytes_each
    return [stream.exchange(b"set k%d 0 0 %d\r\n%s\r\n" % (n, bytes_each, value)).data for n in range(first, end)]


@pytest.mark.parametrize("evicts", [False, True], ids=["errors", "evicts"])
def test_a_disk_that_fills_up_and_has_room_again(evicts: bool, tmp_path: Path) -> None:
    options = () if evicts else ("-M",)
    with on_small_disk(tmp_path, 40, *options) as (server, disk), Stream(server.connect()) as stream:
        assert set(store(stream, 0, 100)) == {b"STORED\r\n"}
        ballast = fill_up(disk)
        replies = store(stream, 100, 500)
        if evicts:
            assert set(replies) == {b"STORED\r\n"}
            assert int(stats(server)["evictions"]) > 100
            assert stream.exchange(b"set other 0 0 2000\r\n%s\r\n" % (b"o" * 2000)).data == b"STORED\r\n"
        else:
            assert set(replies[100:]) == {OUT_OF_MEMORY}
            assert stream.exchange(b"get k0\r\n").data == b"VALUE k0 0 50000\r\n%s\r\nEND\r\n" % (b"v" * 50_000)
        held = int(stats(server)["curr_items"])
        wait_for(server, lambda: "no room for another page" in server.output(), "the full disk was not told")
        ballast.unlink()
        store(stream, 500, 1000)
        assert int(stats(server)["curr_items"]) > held + 200, "the room that came back was not used"
        said = server.output()
        assert said.count("no room for another page: No space left on device") == 1, said
        assert "its file system has room for 40.0 MiB, memory is 64.0 MiB" in said


@pytest.mark.parametrize("error", [errno.EIO, errno.EOPNOTSUPP, errno.ENOSPC])
def test_blocks_that_cannot_be_given_back_and_are_gone(error: int, tmp_path: Path) -> None:
    """A file system that takes blocks and says that it did not: no page is touched before they are asked for again."""
    faults = Faults(tmp_path)
    with on_small_disk(tmp_path, 40, "-I", "4m", faults=faults) as (server, disk), Stream(server.connect()) as stream:
        large = b"L" * 3_000_000
        for n in range(6):
            assert stream.exchange(b"set l%d 0 0 3000000\r\n%s\r\n" % (n, large), 30).data == b"STORED\r\n"
        faults.set(PUNCH_ERROR, error)
        for n in range(6):
            assert stream.exchange(b"delete l%d\r\n" % n).data == b"DELETED\r\n"
        wait_for(server, lambda: bool(store(stream, 0, 2)) and faults.get(DISK_FAILED) >= 1, "nothing was given back")
        ballast = fill_up(disk)
        store(stream, 0, 400)
        server.check_alive()
        assert stream.exchange(b"set a 0 0 1\r\n1\r\nget a\r\n").data.endswith(b"VALUE a 0 1\r\n1\r\nEND\r\n")
        faults.set(PUNCH_ERROR, 0)
        ballast.unlink()
        assert set(store(stream, 400, 600)) == {b"STORED\r\n"}


def with_failing_disk(tandem: Callable[..., Server], tmp_path: Path, *options: str) -> tuple[Server, Faults]:
    """A server with a memory file; its calls for that fail when told to."""
    faults = Faults(tmp_path)
    with faults.preloaded():
        return tandem("-t", "1", "-e", str(tmp_path / "memory"), *options), faults


@pytest.mark.parametrize("error", [errno.EIO, errno.EOPNOTSUPP, errno.ENOSPC])
def test_blocks_that_cannot_be_had(error: int, tandem: Callable[..., Server], tmp_path: Path) -> None:
    server, faults = with_failing_disk(tandem, tmp_path, "-M")
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
        faults.set(BLOCKS_ERROR, error)
        replies = store(stream, 40, 340)
        assert set(replies[100:]) == {OUT_OF_MEMORY}
        faults.set(BLOCKS_ERROR, 0)
        store(stream, 340, 500)
        assert set(store(stream, 500, 600)) == {b"STORED\r\n"}
        assert stream.exchange(b"get k0\r\n").data == b"VALUE k0 0 50000\r\n%s\r\nEND\r\n" % (b"v" * 50_000)


def starts_empty(tandem: Callable[..., Server], tmp_path: Path) -> None:
    """The next process does not take over what a disk did not take."""
    again = tandem("-t", "1", "-e", str(tmp_path / "memory"))
    with Stream(again.connect()) as stream:
        assert stream.exchange(b"get k39\r\n").data == b"END\r\n"
        assert "could not all be written to its disk; starting empty" in again.output()


# A medium's error is ENODATA.
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.ENODATA])
def test_a_disk_that_does_not_take_what_is_written(error: int, tandem: Callable[..., Server], tmp_path: Path) -> None:
    """What it did not take may be read back as what was there before: no client gets it, now or after a restart."""
    server, faults = with_failing_disk(tandem, tmp_path)
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
        faults.set(WRITE_ERROR, error)
        wait_for(
            server, lambda: stream.exchange(b"get k0\r\n").data == b"END\r\n", "what was not written is still there"
        )
        faults.set(WRITE_ERROR, 0)
        what_is_said = f"cannot be written: {os.strerror(error)}; all items are dropped"
        wait_for(server, lambda: what_is_said in server.output(), "it is not said")

        def stays() -> bool:
            assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
            time.sleep(0.6)
            return stream.exchange(b"get k39\r\n").data.startswith(b"VALUE k39 ")

        wait_for(server, stays, "what the disk took is dropped, too")
    assert server.stop() == 0
    starts_empty(tandem, tmp_path)


def test_a_disk_that_does_not_take_the_end(tandem: Callable[..., Server], tmp_path: Path) -> None:
    server, faults = with_failing_disk(tandem, tmp_path)
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
    faults.set(FSYNC_ERROR, errno.EIO)
    assert server.stop() == 0
    starts_empty(tandem, tmp_path)


class LoopDisk:
    """An ext4 on a loop device, seen by none but its servers. Its own file lies on a tmpfs of 24 MiB, which has no room
    for all that it promises."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "disk"
        self.folder.mkdir()
        self.unix_path = tmp_path.parent / f"{tmp_path.name}.sock"
        script = f"""mount -t tmpfs -o size=24m tmpfs {self.folder} && cd {self.folder} && truncate -s 200M image &&
            PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=1 -O ^has_journal image &&
            mkdir ext4 && mount -o loop,noinit_itable image ext4 && echo mounted && exec sleep 1000"""
        if shutil.which("unshare") is None:
            pytest.skip("no name spaces here")
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=begin_child,
        )
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != b"mounted\n":
            self.close()
            pytest.skip("no loop devices here")

    def close(self) -> None:
        self.holder.kill()
        self.holder.communicate()

    def seen_from_here(self, name: str) -> Path:
        return Path(f"/proc/{self.holder.pid}/root{self.folder}/{name}")

    def server(self) -> Server:
        inside = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", str(tandem_binary()), "memcached"]
        return Server(inside, "-t", "1", "-e", str(self.folder / "ext4/memory"), unix_path=self.unix_path)

    def sync(self) -> bool:
        """Whether it took all that was written."""
        folder = os.open(self.seen_from_here("ext4"), os.O_RDONLY)
        try:
            return ctypes.CDLL(None).syncfs(folder) == 0
        finally:
            os.close(folder)


@pytest.fixture
def loop_disk(tmp_path: Path) -> Iterator[LoopDisk]:
    disk = LoopDisk(tmp_path)
    yield disk
    disk.close()


def test_a_block_device_that_does_not_take_what_is_written(loop_disk: LoopDisk) -> None:
    server = loop_disk.server()
    try:
        with Stream(server.connect()) as stream:
            assert set(store(stream, 0, 1000)) == {b"STORED\r\n"}
            assert not loop_disk.sync(), "the disk took it all"
            wait_for(server, lambda: stream.exchange(b"get k999\r\n").data == b"END\r\n", "it is still there")
            wait_for(server, lambda: "cannot be written" in server.output(), "it is not said")
    finally:
        server.close()


def ends_unreadable(server: Server) -> None:
    assert server.process.wait(20 * TIME_FACTOR) == EX_IOERR, server.describe("it ended in another way")
    said = server.output()
    assert said.count(": a page cannot be read back; the process ends\n") == 1, said
    server.log.close()


def begins_empty_and_serves(server: Server) -> None:
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"get k39\r\n").data == b"END\r\n"
        assert "could not all be read back; starting empty" in server.output()
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}


def test_a_block_device_that_does_not_give_back_what_it_took(loop_disk: LoopDisk) -> None:
    """The next server that starts does not meet the same page again, and again."""
    server = loop_disk.server()
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.log.close()
    assert loop_disk.sync()
    image = loop_disk.seen_from_here("image")
    with loop_disk.seen_from_here("ext4/memory").open("rb") as file:
        os.posix_fadvise(file.fileno(), 2 << 20, 0, os.POSIX_FADV_DONTNEED)  # the header is still in memory
    # What lies there now is an error of the device. Where the file system put the items is its own affair.
    bytes_before = image.stat().st_size
    os.truncate(image, 1 << 20)
    with pytest.raises(ServerError, match=f"exited with {EX_IOERR}"):
        loop_disk.server()
    os.truncate(image, bytes_before)  # another disk, say, to which what could be read was copied
    again = loop_disk.server()
    begins_empty_and_serves(again)
    again.close()


# Small values are copied; the system itself reads large ones, and has another error for them.
@pytest.mark.parametrize("value_bytes", [50_000, 400_000])
@pytest.mark.parametrize("options", [[], ["-o", "drop_privileges"]], ids=["plain", "seccomp"])
def test_a_file_that_somebody_shortens(options: list[str], value_bytes: int, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    server = Server([str(tandem_binary()), "memcached"], "-t", "1", "-e", str(memory), *options)
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40, value_bytes)) == {b"STORED\r\n"}
        # In the middle of the first value: its head can be read.
        os.truncate(memory, (2 << 20) + value_bytes // 4)
        with suppress(OSError):
            stream.exchange(b"get k0\r\n")
    ends_unreadable(server)
    again = Server([str(tandem_binary()), "memcached"], "-t", "1", "-e", str(memory))
    begins_empty_and_serves(again)
    again.close()
