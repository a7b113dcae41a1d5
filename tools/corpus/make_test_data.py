"""Writes the expected ids that the C++ tokenizer and chat renderer are tested against.

    make_test_data.py --tokenizer models/story --out tests/data

encodings.json: text -> ids of plain text. xtml_cases.json: conversations -> segments' text and ids. Both come from the
Python implementations beside this file, which share no code with the C++ ones.
"""

import argparse
import json
import pathlib
import shutil
import unicodedata

import bpe
import xtml
import xtml_cases

TEXTS = [
    "", " ", "  ", "a", "Once upon a time there was a miller.", "Hello, World! It's a test.",
    "don't IT'S we'll THEY'RE I'd he'D you'Ve i'M it'sx 'sx 1's '", "it's IT'S", "don\u2019t", "it\u017fs 'it'\u017f",
    "12345", "1", "47 + 38 = 85", "3.14159 1,000,000", "\u0661\u0662\u0663\u0664", "x2\u00b2 \u2167\u2166",
    "a  \n b", "a \n", "\t\tfoo", "  leading and trailing  ", "line\r\nline\r\n\r\nend", "}\n///", "\u3002\n\n", "!!\n\n  x",
    "\n\n\n", " \n \n ", "a\u00a0b \u00a0c", "\u3000x\u3000\u3000y", "\u2028x \u2029", "\u0085next", "a\x1cb\x1d\x1e \x1fc",
    "\x00\x01\x7f", "\u200bzero\u200b width \ufefffeff \u2060x", "\u180ex \u180e",
    "\u4e16\u754cabc", "abc\u4e16", " \u4e16\u754c", "\u65e5\u672c\u8a9e\u30ab\u30bf\u30ab\u30ca", "1\u3007 \u30071",
    " \u2e80 !\u2e80 \u2e80!", "\u3005\u3007\u3021\u3038\u303b", "\U00020000\U0002a6d6 \U00016fe2\U00016ff0",
    "HelloWorld \u6f22\u5b57\u30c6\u30b9\u30c8 12345 it's", "camelCase HTMLParser XMLHttpRequest iPhone ABC abc ABCabc",
    "\u00c9cole \u00e9tude na\u00efve STRASSE stra\u00dfe \u01c5 \u02b0x \u0394\u03b4", "e\u0301 E\u0301 x\u0301\u0301 \u0301x",
    "!\u0301 !!\u0301 1\u0301 \n\u0301", "\u0301\u0301", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd", "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467!\u2764\ufe0f",
    "\ue000\U000f0000\ufffd\uffff", "'Tis 'twas \"quoted\" --dash-- ...", "`code` $100 50% a_b-c/d\\e <tag/> #1 @x ~ ^ |",
    "<|open|>", "<|open|>message<|sep|><|close|><|end_of_msg|>", "[BOS][EOS][PAD][UNK]", "<|reserved_token_4072|>",
    "<|open|", "________", "a" * 70, "ab" * 300, "the" * 100, " " * 100, "\n" * 33, "-" * 64 + "\n" + "=" * 64,
    "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX!",
    '{"key": [1, 2.5, true, null], "s": "a\\nb"}', "def f(x):\n    return x + 1\n\n\nprint(f(41))\n",
    "Mira gave Tom the lantern in the boathouse.", "\t x \t\n\t y", "a\rb\r\rc", "x\x0b\x0cy", "A\u0301B\u0301c \u02b0\u02b1",
    "\u01c4\u01c5\u01c6", "\u2160\u2170", "\u00aa\u00ba", "\u0660a\u0661", "a1b2c3 1a2b", "!a !A !1 ! a", "..a ..A", "\u00bfQu\u00e9?",
]


def encodings(tokenizer):
    cases = [{"text": text, "ids": tokenizer.encode(text)} for text in TEXTS]
    for case in cases:
        assert tokenizer.decode(case["ids"]) == case["text"], case
    return {"unicode": unicodedata.unidata_version, "cases": cases}


def chats(tokenizer):
    out = []
    for case in xtml_cases.CASES:
        segments = xtml.render(**case["input"])
        ids, _ = xtml.to_ids(segments, tokenizer)
        out.append({**case, "text": "".join(text for text, *_ in segments), "ids": ids})
    return {"cases": out}


def write(path, data):
    rows = ",\n".join(json.dumps(case, ensure_ascii=True) for case in data.pop("cases"))
    head = json.dumps(data, ensure_ascii=True)[1:-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + (head + ", " if head else "") + '"cases": [\n' + rows + "\n]}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    tokenizer = bpe.Tokenizer.load(args.tokenizer / "tiktoken.model")
    write(args.out / "tokenizer" / "encodings.json", encodings(tokenizer))
    write(args.out / "chat" / "xtml_cases.json", chats(tokenizer))
    for name in ("tiktoken.model", "tokenizer_config.json"):
        if args.tokenizer.resolve() != (args.out / "tokenizer").resolve():
            shutil.copy(args.tokenizer / name, args.out / "tokenizer" / name)


if __name__ == "__main__":
    main()
