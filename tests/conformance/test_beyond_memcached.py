"""Where memcached 1.6.18 itself is wrong, and the corpus therefore does not ask: what is asked instead. Each of these
fails on memcached."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness.server import Server
from harness.wire import Stream


@pytest.fixture
def stream(tandem: Callable[..., Server]) -> Stream:
    with Stream(tandem("-t", "1").connect()) as stream:
        yield stream


@pytest.mark.beyond_memcached("it changes the expiry of the item that it has just replaced")
def test_ma_changes_the_expiry_of_a_number_that_grows(stream: Stream) -> None:
    stream.exchange(b"set n 0 0 1\r\n9\r\n")
    assert stream.exchange(b"ma n v T500\r\n").data == b"VA 2\r\n10\r\n"
    assert stream.exchange(b"mg n t\r\n").data in (b"HD t500\r\n", b"HD t499\r\n")


@pytest.mark.beyond_memcached("it reads on behind the value")
def test_white_space_is_no_number(stream: Stream) -> None:
    stream.exchange(b"set n 0 0 10\r\n7777777777\r\n")
    stream.exchange(b"delete n\r\nset n 0 0 2\r\n  \r\n")
    assert stream.exchange(b"incr n 1\r\n").data == b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"


@pytest.mark.beyond_memcached("it looks for a minus sign in what the memory held before")
def test_large_numbers_are_numbers_whatever_was_there_before(stream: Stream) -> None:
    stream.exchange(b"set n 0 0 30\r\n" + b"-" * 30 + b"\r\n")
    stream.exchange(b"delete n\r\nset n 0 0 20\r\n18446744073709551614\r\n")
    assert stream.exchange(b"incr n 1\r\n").data == b"18446744073709551615\r\n"


@pytest.mark.beyond_memcached("it keeps the answers back until the value that follows is whole")
def test_answers_do_not_wait_for_the_next_value(stream: Stream) -> None:
    stream.send(b"version\r\nset later 0 0 10\r\n01234")
    stream.socket.settimeout(5)
    assert stream.socket.recv(100).startswith(b"VERSION ")
