#!/usr/bin/env python3
"""The size budget: files, functions, parameters, nesting. Over the budget is reported, over a hard limit fails.

Reads the text after clang-format; functions are found by their braces, not by a parser.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_BUDGET, FILE_LIMIT, CU_FILE_LIMIT = 400, 600, 800
FUNCTION_BUDGET, FUNCTION_LIMIT, KERNEL_LIMIT = 60, 90, 150
PARAMETERS_BUDGET = 5

NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
TYPE_HEAD = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
NAME = re.compile(r"([~\w:]+|operator\S+)\s*\(")


def blank(match):
    """Keeps line numbers and spares digit separators such as 1'000."""
    return re.sub(r"[^\n]", " ", match.group(0))


def functions(text):
    """(name, first line, last line, parameters) of each function defined at namespace or class depth."""
    text = NOT_CODE.sub(blank, re.sub(r"(?<=\d)'(?=\d)", "_", text))
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)
    stack, head_start = [], 0
    for i, c in enumerate(text):
        if c == ";" and not any(kind == "function" for kind, _ in stack):
            head_start = i + 1
        elif c == "{":
            head = text[head_start:i]
            kind = "type"
            if "(" in head and not TYPE_HEAD.search(head.split("(")[0]):
                kind = "function"
            stack.append((kind, (head, head_start + len(head) - len(head.lstrip()), i)))
            if kind == "type" or len(stack) == 1:
                head_start = i + 1
        elif c == "}" and stack:
            kind, (head, start, _) = stack.pop()
            if kind == "function" and not any(k == "function" for k, _ in stack):
                match = NAME.search(head)
                yield (match.group(1) if match else "?", text.count("\n", 0, start) + 1,
                       text.count("\n", 0, i) + 1, parameters(head))
            if not any(k == "function" for k, _ in stack):
                head_start = i + 1


def parameters(head):
    depth, count, begin = 0, 0, head.index("(")
    for c in head[begin:]:
        depth += (c in "(<[{") - (c in ")>]}")
        count += c == "," and depth == 1
        if depth == 0:
            break
    inside = head[begin + 1:].split(")")[0].strip()
    return count + (1 if inside else 0)


def check(path, report, errors):
    name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
    lines = text.count("\n")
    limit = CU_FILE_LIMIT if path.suffix in (".cu", ".cuh") else FILE_LIMIT
    if lines > limit:
        errors.append(f"{name}: {lines} lines, hard limit {limit}")
    elif lines > FILE_BUDGET:
        report.append(f"{name}: {lines} lines, budget {FILE_BUDGET}")
    for function, first, last, count in functions(text):
        length = last - first + 1
        hard = KERNEL_LIMIT if path.suffix in (".cu", ".cuh") else FUNCTION_LIMIT
        where = f"{name}:{first}: {function}"
        if length > hard:
            errors.append(f"{where}: {length} lines, hard limit {hard}")
        elif length > FUNCTION_BUDGET:
            report.append(f"{where}: {length} lines, budget {FUNCTION_BUDGET}")
        if count > PARAMETERS_BUDGET and path.suffix in (".h", ".cc"):
            report.append(f"{where}: {count} parameters, budget {PARAMETERS_BUDGET}")


def main():
    listed = subprocess.run(["git", "ls-files", "--", "*.h", "*.cc", "*.cu", "*.cuh"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout.split("\n")
    report, errors = [], []
    files = [ROOT / f for f in listed if f and (ROOT / f).exists()]
    for path in files:
        check(path, report, errors)
    for line in report:
        print("over budget: " + line)
    for line in errors:
        print("over the limit: " + line)
    print(f"sizes: {len(files)} files, {len(report)} over budget, {len(errors)} over a hard limit")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
