"""Token streams on disk: NAME.ids.u16, NAME.starts.u32, NAME.mask.u8 (little endian, optionally .xz)."""

import array
import lzma
import pathlib
import sys

WINDOW = 1024


class Stream:
    """Documents one behind the other; `mask` marks the tokens that count as targets."""

    def __init__(self):
        self.ids = array.array("H")
        self.starts = array.array("I")
        self.mask = array.array("B")

    def add(self, ids, mask=None):
        self.starts.append(len(self.ids))
        self.ids.extend(ids)
        self.mask.extend(mask if mask is not None else [1] * len(ids))
        self.mask[self.starts[-1]] = 0

    def write(self, base, compress=False, with_mask=True):
        """Writes the files of `base` (a path without suffix)."""
        parts = {"ids.u16": self.ids, "starts.u32": self.starts, **({"mask.u8": self.mask} if with_mask else {})}
        for suffix, data in parts.items():
            if sys.byteorder == "big":
                data.byteswap()
            raw = data.tobytes()
            path = pathlib.Path(f"{base}.{suffix}" + (".xz" if compress else ""))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lzma.compress(raw, preset=6) if compress else raw)

    def summary(self):
        return {"tokens": len(self.ids), "documents": len(self.starts), "loss_tokens": sum(self.mask)}


class Packer:
    """Packs whole documents into windows of 1024 tokens: no document crosses a border, gaps are [PAD] with mask 0."""

    def __init__(self, pad, open_windows=16):
        self.pad = pad
        self.limit = open_windows
        self.windows = []
        self.stream = Stream()

    def add(self, ids, mask):
        """A document of at most 1024 tokens into the fullest open window that holds it."""
        if len(ids) > WINDOW:
            raise ValueError(f"document of {len(ids)} tokens; at most {WINDOW} fit a window")
        fits = [w for w in self.windows if w[0] + len(ids) <= WINDOW]
        if fits:
            window = max(fits, key=lambda w: w[0])
        else:
            if len(self.windows) == self.limit:
                self.flush(max(self.windows, key=lambda w: w[0]))
            window = [0, []]
            self.windows.append(window)
        window[0] += len(ids)
        window[1].append((ids, mask))

    def flush(self, window):
        for ids, mask in window[1]:
            self.stream.add(ids, mask)
        gap = WINDOW - window[0]
        if gap:
            self.stream.add([self.pad] * gap, [0] * gap)
        self.windows.remove(window)

    def finish(self):
        while self.windows:
            self.flush(self.windows[0])
        return self.stream
