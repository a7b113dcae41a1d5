#!/usr/bin/env python3
"""Tests of compare_bench.py."""
import contextlib
import copy
import io
import json
import pathlib
import tempfile
import unittest

import compare_bench


def row(name="decode 128", median=1.0, spread=0.01, status="ok", **more):
    return {"name": name, "threads": 2, "batch": 1, "depth": 0, "status": status, "noisy": False,
            "seconds": {"median": median, "min": median * (1 - spread), "max": median * (1 + spread)},
            **more}


def document(*rows):
    return {
        "format": "baltoro-bench-1",
        "suite": "model",
        "machine": {"cpu": "Xeon", "processors": 2, "cores": 2, "memory_bytes": 1 << 34,
                    "commit": "abc", "date": "2026-11-30T08:00:00Z", "load": 0.1},
        "settings": {"activations": "bf16", "load": "auto", "fingerprint": "12", "backend": "cpu/avx2"},
        "rows": list(rows),
    }


class CompareBench(unittest.TestCase):
    def run_files(self, a, b, *options):
        """(exit status, standard output, standard error) of the script on two documents."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / "a.json", pathlib.Path(folder) / "b.json"]
            for path, content in zip(paths, (a, b)):
                path.write_text(content if isinstance(content, str) else json.dumps(content))
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = compare_bench.main([str(path) for path in paths] + list(options))
        return status, out.getvalue(), err.getvalue()

    def word(self, a, b):
        status, out, _ = self.run_files(document(a), document(b))
        self.assertEqual(status, 0)
        return out.splitlines()[2].split()[-1]

    def test_verdicts(self):
        self.assertEqual(self.word(row(median=1.0), row(median=1.0)), "equal")
        self.assertEqual(self.word(row(median=1.0), row(median=1.025)), "equal")
        self.assertEqual(self.word(row(median=1.0), row(median=1.1)), "slower")
        self.assertEqual(self.word(row(median=1.0), row(median=0.9)), "faster")
        # Ten percent apart, but each run was as far from itself.
        self.assertEqual(self.word(row(median=1.0, spread=0.1), row(median=1.1, spread=0.1)), "noise")

    def test_ratio_is_the_gain_of_b(self):
        _, out, _ = self.run_files(document(row(median=3.0)), document(row(median=2.0)))
        self.assertIn(" 1.500 ", out)

    def test_fail_above(self):
        slow = document(row(median=1.1))
        self.assertEqual(self.run_files(document(row()), slow, "--fail-above", "5")[0], 1)
        self.assertEqual(self.run_files(document(row()), slow, "--fail-above", "12")[0], 0)
        noisy = document(row(median=1.1, spread=0.2))
        self.assertEqual(self.run_files(document(row()), noisy, "--fail-above", "5")[0], 0)
        self.assertEqual(self.run_files(slow, document(row()), "--fail-above", "5")[0], 0)

    def test_a_lost_result_fails(self):
        lost = document({"name": "decode 128", "threads": 2, "batch": 1, "depth": 0,
                         "status": "wrong", "fault": "linear: ..."})
        status, out, _ = self.run_files(document(row()), lost, "--fail-above", "5")
        self.assertEqual(status, 1)
        self.assertIn("no result: ok and wrong", out)
        self.assertEqual(self.run_files(lost, lost, "--fail-above", "5")[0], 0)

    def test_rows_are_matched_by_name_threads_batch_and_depth(self):
        _, out, _ = self.run_files(document(row(), row(depth=64)), document(row(depth=64), row("x")))
        lines = [" ".join(line.split()) for line in out.splitlines()]
        self.assertIn("decode 128, 2 thr, batch 1, depth 0 only in A", lines)
        self.assertIn("x, 2 thr, batch 1, depth 0 only in B", lines)
        self.assertEqual(out.count("equal"), 1)

    def test_refuses_what_is_unlike(self):
        for part, key in (("machine", "cpu"), ("settings", "fingerprint"), ("settings", "activations")):
            other = copy.deepcopy(document(row()))
            other[part][key] = "other"
            status, out, err = self.run_files(document(row()), other)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(f"{part} {key}", err)
            self.assertEqual(self.run_files(document(row()), other, "--force")[0], 0)

    def test_another_backend_is_what_one_compares(self):
        other = document(row())
        other["settings"]["backend"] = "cpu/avx512"
        self.assertEqual(self.run_files(document(row()), other)[0], 0)

    def test_refuses_other_files(self):
        for content in ("{", "[]", "{}", '{"format": "baltoro-bench-9"}'):
            status, _, err = self.run_files(document(row()), content)
            self.assertEqual(status, 2)
            self.assertIn("b.json: ", err)


if __name__ == "__main__":
    unittest.main()
