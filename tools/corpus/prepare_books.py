"""Books (one text file, documents parted by a line "<|doc|>") -> token streams.

    prepare_books.py --books DIR --tokenizer models/story --out DATA

Writes train_books (documents whole), train_tales (tales told from their first paragraph on, without the title, so that
a bare "Once upon a time" is a beginning that the model knows), valid_books_whole and valid_chapters, and meta.json.
"""

import argparse
import json
import lzma
import multiprocessing
import pathlib
import re

import bpe
import streams

WHOLE_BOOKS = ("The Magic City", "The Middle Temple Murder")
TALE = re.compile(r"(Once upon a time|There was once|There once|Once there|Long ago|Long, long ago|In (the )?olden |In a certain"
                  r"|There was an? |There lived|Many years ago|A long time ago|Once )")
TALE_BOOKS = ("Household Tales", "Russian Folktales", "Children's Stories", "Just So Stories", "Short Fiction")
TALE_CHARS = 12_000


def load(directory, split):
    """[(title of the book, text)] of a split."""
    with lzma.open(directory / f"{split}.txt.xz", "rt", encoding="ascii") as f:
        docs = f.read().split("<|doc|>\n")
    with open(directory / "readability.tsv", encoding="utf-8") as f:
        rows = [line.split("\t") for line in f]
    titles = [row[2] for row in rows if row[0] == split]
    if len(titles) != len(docs):
        raise SystemExit(f"{split}: {len(docs)} documents, {len(titles)} rows in readability.tsv")
    return list(zip(titles, docs))


def tale(title, text):
    """The tale without its title line, cut after a paragraph, or None if this is no tale."""
    lines = text.split("\n", 2)
    begin = next((i for i in (0, 1) if i < len(lines) and TALE.match(lines[i])), None)
    if title not in TALE_BOOKS or begin is None:
        return None
    body = text.split("\n", begin)[begin]
    if len(body) > TALE_CHARS:
        body = body[:body.rindex("\n", 0, TALE_CHARS)] if "\n" in body[:TALE_CHARS] else body[:TALE_CHARS]
    return body


def init(path):
    global tokenizer
    tokenizer = bpe.Tokenizer.load(path)


def encode(text):
    return tokenizer.encode(text.rstrip("\n")) + [tokenizer.special["[EOS]"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", required=True, type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    train, valid = load(args.books, "train"), load(args.books, "valid")
    sources = {
        "train_books": [text for _, text in train],
        "train_tales": [t for t in (tale(title, text) for title, text in train) if t],
        "valid_books_whole": [text for title, text in valid if title in WHOLE_BOOKS],
        "valid_chapters": [text for title, text in valid if title not in WHOLE_BOOKS],
    }
    meta = {}
    with multiprocessing.Pool(args.workers, init, (args.tokenizer / "tiktoken.model",)) as pool:
        for name, texts in sources.items():
            stream = streams.Stream()
            for ids in pool.imap(encode, texts, chunksize=16):
                stream.add(ids)
            stream.write(args.out / name, compress=name.startswith("train"), with_mask=False)
            meta[name] = {**stream.summary(), "bytes": sum(len(t.rstrip("\n").encode()) for t in texts)}
            print(name, meta[name], flush=True)
    (args.out / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


if __name__ == "__main__":
    main()
