"""What a server does when searches hang, and what it records."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.unit.serving.fakes import FakeCaller, a_retriever, fake_calls
from tests.unit.serving.servers import served

from toolheads.serving import Access, ServeSettings
from toolheads.serving.access import Asker
from toolheads.serving.service import ToolService
from toolheads.serving.workers import Workers
from toolheads.usage import UsageRecorder, link, read_usage

PATIENCE_S = 10.0
ASKER = Asker(Access("agent"), "s1", "rest")


def run(work, **settings):
    """Run `work(service, retriever)`."""

    async def whole():
        retriever = a_retriever()
        service = ToolService(
            retriever, fake_calls(FakeCaller()), settings=ServeSettings(**settings)
        )
        try:
            return await asyncio.wait_for(work(service, retriever), PATIENCE_S)
        finally:
            retriever.hang.set()
            await service.close()

    return asyncio.run(whole())


def test_cached_searches_and_look_ups_are_not_behind_hanging_ones():
    async def work(service, retriever):
        retriever.hang.clear()
        retriever.cached.add("mail")
        hanging = [asyncio.create_task(service.search(ASKER, f"mail {n}")) for n in range(8)]
        await asyncio.sleep(0)
        answer = await service.search(ASKER, "mail")
        looked_up = service.tool(ASKER, "send_mail"), service.page(ASKER)
        assert not any(task.done() for task in hanging)
        retriever.hang.set()
        await asyncio.gather(*hanging)
        return answer, looked_up

    answer, (tool, page) = run(work)
    assert (answer["mode"], tool["id"], page["total"]) == ("dense", "mail/send_mail", 4)


def test_words_answer_once_the_patience_for_a_vector_is_over():
    async def work(service, retriever):
        retriever.hang.clear()
        retriever.patience_s = 0.02
        answer = await service.search(ASKER, "mail please")
        retriever.hang.set()
        return answer, await service.search(ASKER, "mail please")

    answer, again = run(work)
    assert (answer["mode"], answer["reason"]) == ("lexical", "the encoder is busy")
    assert [tool["id"] for tool in answer["tools"]] == ["mail/send_mail"]
    assert again["mode"] == "dense"


def test_a_search_that_is_given_up_while_it_waits_is_not_begun():
    async def work(service, retriever):
        retriever.hang.clear()
        given_up = asyncio.create_task(service.search(ASKER, "mail please"))
        await asyncio.sleep(0.01)
        given_up.cancel()
        await asyncio.wait([given_up])
        retriever.hang.set()
        await asyncio.sleep(0.01)
        return retriever.searched

    assert run(work) == []


@pytest.mark.parametrize("is_light", [True, False])
def test_only_a_search_that_takes_long_gets_a_thread(is_light):
    async def work(service, retriever):
        retriever.is_light = is_light
        await service.search(ASKER, "mail")
        return retriever.threads == [threading.current_thread()]

    assert run(work) == is_light


def test_a_search_that_is_given_up_keeps_its_thread_until_it_is_done(monkeypatch):
    """Else the next one would wait behind it, where words could answer."""
    monkeypatch.setattr("toolheads.serving.workers._PATIENCE_S", 0.02)

    async def whole():
        workers, is_free = Workers(1, "test"), threading.Event()
        given_up = asyncio.create_task(workers.run(lambda: is_free.wait(PATIENCE_S)))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        assert await workers.run_soon(lambda: "second") is None
        is_free.set()
        assert await asyncio.wait_for(workers.run(lambda: "third"), PATIENCE_S) == "third"
        workers.close()

    asyncio.run(whole())


def test_a_session_is_a_conversation_where_that_is_wanted():
    async def work(service, retriever):
        await service.search(ASKER, "mail")
        await service.search(ASKER, "mail", conversation="c")
        return [one["conversation"] for one in retriever.searched]

    assert run(work) == [None, "agent c"]
    assert run(work, stable_sessions=True) == ["agent s1", "agent c"]


# What is recorded


@pytest.fixture
def recorder(tmp_path):
    recorder = UsageRecorder(tmp_path / "usage", retry_s=0.01)
    yield recorder
    recorder.close(0.0)


def test_searches_and_calls_are_recorded_without_what_was_written(tmp_path, recorder):
    with served(usage=recorder, heads="ab" * 32) as server:
        found = server.post("/v1/search", {"query": "secret event"}).json()
        body = {"name": "move_event", "arguments": {"city": "Izmir"}}
        called = server.post("/v1/call", body, **{"X-Session-Id": "other"}).json()
        server.post("/v1/call", {**body, "search_id": found["search_id"]})
        told = server.post("/v1/feedback", {"name": "move_event", "ok": False}).json()
    assert recorder.flush(PATIENCE_S)
    log = read_usage(tmp_path / "usage")
    (search,) = log.searches
    assert search.search_id == found["search_id"]
    assert search.shown == tuple(tool["id"] for tool in found["tools"])
    assert search.digest == recorder.digest("query", "secret event")
    assert (search.mode, search.via, search.heads) == ("dense", "rest", "ab" * 32)
    assert (search.client, search.catalogue) == ("everyone", found["catalogue"])
    assert [call.search_id for call in log.calls] == ["", search.search_id, search.search_id]
    assert [call.call_id for call in log.calls][::2] == [called["call_id"], told["call_id"]]
    assert [(call.ok, call.via) for call in log.calls][2] == (False, "feedback")
    (file,) = (tmp_path / "usage").glob("*.jsonl")
    text = file.read_text()
    assert not [word for word in ("secret", "Izmir", "testclient", "other") if word in text]


def test_the_log_of_a_server_can_be_learnt_from_where_texts_are_kept(tmp_path):
    recorder = UsageRecorder(tmp_path / "usage", keep_texts=True)
    with served(usage=recorder) as server:
        found = server.post("/v1/search", {"query": "move an event"}).json()
        body = {"name": "move_event", "arguments": {"city": "Izmir"}}
        server.post("/v1/call", body)
    recorder.close()
    log = read_usage(tmp_path / "usage")
    (linked,) = link(log, {tool["id"] for tool in found["tools"]}).searches
    assert (linked.search.text, linked.called) == ("move an event", ("calendar/move_event",))
    assert log.calls[0].arguments == '{"city": "Izmir"}'


def test_a_log_that_cannot_be_written_fails_no_search_and_shows_in_the_metrics(tmp_path):
    (tmp_path / "file").write_text("in the way")
    recorder = UsageRecorder(tmp_path / "file" / "usage", retry_s=0.01)
    with served(usage=recorder) as server:
        assert server.post("/v1/search", {"query": "event"}).status_code == 200
        body = {"name": "move_event", "arguments": {"city": "x"}}
        assert server.post("/v1/call", body).json()["outcome"] == "ok"
        assert "toolheads_usage_waiting 2.0" in server.get("/metrics").text
        (tmp_path / "file").unlink()
        assert recorder.flush(PATIENCE_S)
        assert "toolheads_usage_written_total 2.0" in server.get("/metrics").text
    recorder.close()
    assert len(read_usage(tmp_path / "file" / "usage").searches) == 1
