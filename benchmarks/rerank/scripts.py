"""Whether rerankers, plans and decisions say rightly that something matches, or nothing, by script.

    python -m benchmarks.rerank.scripts

For each script a catalogue of five tools that are described in it, a request that one of them does,
and one that none does; and the same requests over the English catalogue, where nothing matches but
for the Latin one. No encoder: shared words alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolheads.decide import Picker, PickerSettings
from toolheads.domain import Tool
from toolheads.plan import retrieve
from toolheads.rerank import rerank
from toolheads.scorers.bm25 import BM25Scorer

NAMES = ("forecast", "send_mail", "move_event", "play_song", "pay_bill")
_THRESHOLDS = PickerSettings(similarity_floor=0.01, margin=0.0, score_unit=20.0)
"""Any shared word is over the floor, and the best tool is bound."""


@dataclass(frozen=True)
class Script:
    """Descriptions of the five tools, and two requests."""

    name: str
    descriptions: tuple[str, ...]
    matching: str
    wanted: str
    """Name of the tool that the matching request needs."""
    foreign: str
    """A request that shares no word with any tool."""

    @property
    def tools(self) -> list[Tool]:
        """The catalogue."""
        pairs = zip(NAMES, self.descriptions, strict=True)
        return [Tool(name, name, description=said) for name, said in pairs]


SCRIPTS = (
    Script(
        "Latin",
        (
            "Weather forecast of a city",
            "Sends a letter to a person",
            "Moves a meeting to another day",
            "Plays a melody of an artist",
            "Pays an invoice from the account",
        ),
        "how will the weather be in the city",
        "forecast",
        "prune the rose hedge",
    ),
    Script(
        "Cyrillic",
        (
            "Прогноз погоды для города",
            "Отправляет письмо человеку",
            "Переносит встречу на другой день",
            "Включает песню исполнителя",
            "Оплачивает счёт за квартиру",
        ),
        "отправь письмо маме",
        "send_mail",
        "подстриги розовый куст",
    ),
    Script(
        "CJK",
        (
            "查询城市的天气预报",
            "给联系人发送电子邮件",
            "把会议改到另一天",
            "播放歌手的歌曲",
            "支付公寓的账单",
        ),
        "请帮我播放一首歌曲",
        "play_song",
        "修剪玫瑰花丛",
    ),
    Script(
        "Arabic",
        (
            "توقعات الطقس في مدينة",
            "يرسل رسالة إلى شخص",
            "ينقل اجتماع إلى يوم آخر",
            "يشغل أغنية لفنان",
            "يدفع فاتورة من حساب",
        ),
        "أريد نقل اجتماع الغد",
        "move_event",
        "قلم شجيرة الورد",
    ),
    Script(
        "Devanagari",
        (
            "शहर के मौसम का पूर्वानुमान",
            "किसी व्यक्ति को पत्र भेजता है",
            "बैठक को दूसरे दिन ले जाता है",
            "कलाकार का गीत बजाता है",
            "खाते से बिजली बिल चुकाता है",
        ),
        "बिजली बिल चुकाओ",
        "pay_bill",
        "गुलाब झाड़ी छाँटो",
    ),
)

METHODS = ("keyword rerank", "plan retrieval", "decision (BM25)")


def found(tools: list[Tool], request: str) -> dict[str, str | None]:
    """Method → name of the tool that comes first; None where the method says that nothing fits."""
    chosen = rerank(tools, request, "keyword", top_n=1)
    retrieved = retrieve(tools, request, k=1)
    decision = Picker(tools, BM25Scorer(), _THRESHOLDS).resolve(request)
    return dict(
        zip(
            METHODS,
            (
                chosen.names[0] if chosen.report.matched else None,
                None if retrieved.nothing_matches else retrieved.tools[0].name,
                decision.hits[0].tool.name if decision.hits else None,
            ),
            strict=True,
        )
    )


def main() -> None:
    print("| script | request | needs |", " | ".join(METHODS), "| over English tools |")
    print("| --- | --- | --- |", " | ".join(["---"] * len(METHODS)), "| --- |")
    english = SCRIPTS[0].tools
    for script in SCRIPTS:
        for request, wanted in ((script.matching, script.wanted), (script.foreign, None)):
            said = [name or "nothing" for name in found(script.tools, request).values()]
            over = {name or "nothing" for name in found(english, request).values()}
            cells = [script.name, request, wanted or "nothing", *said, ", ".join(sorted(over))]
            print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
