"""Pauses of the garbage collector, also across a fork."""

import gc
import os
from threading import Event, Thread

import pytest

from qdialect.support.memory import paused_collection


def collects_in_child() -> bool:
    """Whether a child that is forked now collects garbage."""
    child = os.fork()
    if not child:
        os._exit(not gc.isenabled())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_pause_ends():
    assert gc.isenabled()
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), paused_collection():
        raise KeyError
    assert gc.isenabled()


def test_who_does_not_collect_goes_on_so():
    gc.disable()
    try:
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        assert not collects_in_child()
    finally:
        gc.enable()


def test_a_child_has_no_pause_of_another_thread():
    is_paused, may_end = Event(), Event()

    def pause() -> None:
        with paused_collection():
            is_paused.set()
            may_end.wait()

    thread = Thread(target=pause)
    thread.start()
    try:
        is_paused.wait()
        assert not gc.isenabled()
        assert collects_in_child()
        with paused_collection():
            assert collects_in_child()
    finally:
        may_end.set()
        thread.join()
    assert gc.isenabled()


def test_a_child_ends_its_own_pause():
    with paused_collection():
        assert not collects_in_child()
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    if not child:
        os._exit(not gc.isenabled())
    assert collects_in_child()
