"""Prints what `check_modules` found about PyTorch's own samples, as a page of docs/.

    python make_table.py SAMPLES FOUND > docs/pytorch-samples.md

SAMPLES is the directory that `make_modules.py` wrote, FOUND the one that `check_modules --out` names.
"""

import collections
import datetime
import platform
import re
import sys
from pathlib import Path

import torch

# Characters of a finding.
LONGEST = 100

PAGE = """# PyTorch's own samples

PyTorch {torch}, akg 0.1.0, Python {python}, {date}. The commands are those of
[operators.md](operators.md#pytorchs-own-samples), with at most {most} samples an entry, and

```console
$ python examples/pytorch_samples/make_table.py samples found > docs/pytorch-samples.md
```

Of {entries} entries of the database, {left} are left out whole. Of the other {rest}, **{whole} ({share:.1%}) are verified with all their
samples**, {verified} of {samples} samples in all. A sample is verified if the reference interpreter agrees with PyTorch in double precision
and the interpreted design with the reference.

## Not verified with all samples

{failed}

## Left out

{reasons}
"""


def main():
    samples, found = (Path(argument) for argument in sys.argv[1:3])
    entries = [line.split("\t") for line in (samples / "entries.tsv").read_text().splitlines()]
    results = collections.defaultdict(collections.Counter)
    for line in (found / "modules.tsv").read_text().splitlines():
        module, finding = line.split("\t")[:2]
        finding = re.split(r" \((?:at|graph|module): ", finding)[0]
        finding = finding if len(finding) <= LONGEST else finding[:LONGEST] + "…"
        results[module.rsplit("/")[-1].rsplit("-", 2)[0]][finding] += 1
    tested = {name: int(count) for name, count, _ in entries if int(count)}
    missing = [name for name, count in tested.items() if sum(results[name].values()) != count]
    if missing:
        sys.exit(f"not one finding for each sample of {len(missing)} entries, such as {missing[0]}: run check_modules to its end")
    whole = [name for name, count in tested.items() if results[name]["verified"] == count]
    left = [reason for name, _, reason in entries if name not in tested]
    print(
        PAGE.format(
            torch=torch.__version__,
            python=platform.python_version(),
            date=f"{datetime.date.today():%-d %B %Y}",
            most=max(tested.values()),
            entries=len(entries),
            left=len(left),
            rest=len(tested),
            whole=len(whole),
            share=len(whole) / len(tested),
            verified=sum(found["verified"] for found in results.values()),
            samples=sum(tested.values()),
            failed=failures(tested, results),
            reasons=table(("reason", "entries"), collections.Counter(left).most_common()),
        ),
        end="",
    )


def failures(tested, results):
    """A table of the entries of which a sample is not verified, with what was found instead."""
    rows = []
    for name, count in sorted(tested.items()):
        others = [(finding, number) for finding, number in results[name].items() if finding != "verified"]
        if others:
            said = "; ".join(f"{finding} ({number})" for finding, number in others)
            rows.append((f"`{name}`", f"{results[name]['verified']} of {count}", said.replace("|", "\\|")))
    return table(("entry", "verified", "the others"), rows) if rows else "None."


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


main()
