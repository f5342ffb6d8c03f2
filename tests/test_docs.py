"""The documentation quotes files as they are; and docs/quote.py, which sees to that, can fail."""

import sys
from pathlib import Path

import pytest

from docs import quote

ROOT = Path(__file__).parents[1]


def test_all_quotes_are_fresh(capsys):
    assert len(quote.documents()) >= 3
    assert quote.main(["--check"]) == 0, capsys.readouterr().err


# ---- quotes ---------------------------------------------------------------------------------

SOURCE = """\
/* SPDX-License-Identifier: Apache-2.0 */
int before;
    /* [loop] */
    for (;;)
        if (done)
            break;
    // [/loop]
int after;
"""
LOOP = ["for (;;)", "    if (done)", "        break;"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "a.c").write_text(SOURCE)
    return tmp_path


def page(folder, *lines):
    path = folder / "page.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(path, *flags):
    return quote.main([*flags, str(path)])


def test_a_part_is_written_and_then_fresh(folder, capsys):
    path = page(folder, "Text", "<!-- quote: example/a.c#loop -->", "```c", "old", "```", "more")
    assert run(path) == 0
    assert path.read_text().splitlines() == [
        *("Text", "<!-- quote: example/a.c#loop -->", "```c", *LOOP, "```", "more")
    ]
    assert run(path, "--check") == 0
    assert capsys.readouterr().err == ""


def test_a_file_is_quoted_without_the_marks_of_its_parts(folder):
    path = page(folder, "<!-- quote: example/a.c -->", "~~~~c", "~~~~")
    assert run(path) == 0
    expected = [line for line in SOURCE.splitlines() if "loop]" not in line]
    assert path.read_text().splitlines()[2:-1] == expected


def test_marks_of_python_and_markdown_are_known(tmp_path):
    (tmp_path / "a.py").write_text("# [x]\none = 1\n# [/x]\n")
    (tmp_path / "a.txt").write_text("<!-- [x] -->\ntwo\n<!-- [/x] -->\n")
    for name, body in (("a.py", "one = 1"), ("a.txt", "two")):
        path = page(tmp_path, f"<!-- quote: {name}#x -->", "```", "```")
        assert run(path) == 0
        assert path.read_text().splitlines()[2] == body


def test_a_stale_block_is_shown_and_left(folder, capsys):
    path = page(folder, "<!-- quote: example/a.c#loop -->", "```c", "for (;;)", "```")
    before = path.read_text()
    assert run(path, "--check") == 1
    assert path.read_text() == before
    shown = capsys.readouterr().err
    assert "+    if (done)" in shown
    assert "page.md" in shown


def test_marks_in_a_block_are_text(folder):
    lines = ["````", "<!-- quote: nowhere.c -->", "```", "old", "```", "````"]
    path = page(folder, *lines)
    assert run(path, "--check") == 0
    assert path.read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<!-- quote: example/b.c -->", "```", "```"], "there is no file"),
        (["<!-- quote: example/a.c#pool -->", "```", "```"], "expected the comments [pool]"),
        (["<!-- quote: example/a.c -->", "", "```", "```"], "expected a fenced block"),
        (["<!-- quote: example/a.c -->"], "expected a fenced block"),
        (["<!-- quote: example/a.c -->", "```c", "no end"], "has no end"),
        (["<!-- quote example/a.c -->", "```c", "```"], "expected a mark"),
        (["<!-- reference example/a.c -->"], "expected a mark"),
        (["<!-- site: a b -->"], "expected a mark"),
        (["<!-- generated: a:b -->"], "expected <!-- end generated -->"),
        (["<!-- generated: a b -->"], "expected a mark"),
        (["<!-- end generated -->"], "expected a mark"),
        (["<!-- generated: no.such:b -->", "<!-- end generated -->"], "cannot generate no.such:b"),
        (["<!-- generated: os.path:b -->", "<!-- end generated -->"], "cannot generate os.path:b"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--check"]])
def test_what_cannot_be_quoted(folder, capsys, lines, message, flags):
    path = page(folder, *lines)
    before = path.read_text()
    assert run(path, *flags) == 1
    assert message in capsys.readouterr().err
    assert path.read_text() == before


@pytest.mark.parametrize(
    "source",
    [
        "/* [x] */\n1\n",
        "/* [/x] */\n1\n/* [x] */\n",
        "/* [x] */\n1\n/* [/x] */\n/* [x] */\n2\n/* [/x] */\n",
    ],
)
def test_a_part_has_one_beginning_and_one_end(tmp_path, capsys, source):
    (tmp_path / "a.c").write_text(source)
    assert run(page(tmp_path, "<!-- quote: a.c#x -->", "```", "```")) == 1
    assert "once and in this order" in capsys.readouterr().err


def test_a_quote_cannot_end_its_block(tmp_path, capsys):
    (tmp_path / "a.md").write_text("```\nx\n```\n")
    assert run(page(tmp_path, "<!-- quote: a.md -->", "```", "```")) == 1
    assert "longer fences" in capsys.readouterr().err
    assert run(page(tmp_path, "<!-- quote: a.md -->", "````", "````")) == 0


def test_what_a_function_yields(tmp_path, monkeypatch):
    (tmp_path / "lines_for_a_page.py").write_text("def made():\n    yield 'one'\n    yield 'two'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = page(
        tmp_path,
        "<!-- generated: lines_for_a_page:made -->",
        "old",
        "<!-- end generated -->",
        "end",
    )
    assert run(path, "--check") == 1
    assert run(path) == 0
    assert path.read_text().splitlines()[1:] == [
        *("", "one", "two", "", "<!-- end generated -->", "end")
    ]
    assert run(path, "--check") == 0
    del sys.modules["lines_for_a_page"]


# ---- the reference --------------------------------------------------------------------------

HEADER = """\
/* =====
 * Before
 * ===== */
static inline int not_this(void);

/* =====
 * The interface
 * ===== */

/* A thing. `x` is
 * for reading.
 *
 *     thing t;
 *
 * Cheap. */
typedef struct {
    int x;
    /* Nobody's
     * business. */
    int room_[2 * 4];
} fastdl_thing;

#define FASTDL_THING(x) {x}

/* Makes *out of a fastdl_thing. */
static inline int fastdl_make(fastdl_thing thing,
                              void **out);

/* Not for you. */
static inline int fastdl_hidden_(void);

/* ---- more ---- */

enum {
    FASTDL_ONE = 1,
};

/* Two lines. */
#define FASTDL_TWO \\
    2

/* =====
 * After: FASTDL_ALL(x, ...) and a body
 * ===== */

/* ---- with prose ----
 *
 * As FASTDL_ALL(x, ...) is. */
typedef struct {
    int x;
} fastdl_int;
#define FASTDL_ALL(x, ...) \\
    {x, __VA_ARGS__}

#ifdef SOMETHING /* else */
/* Of its own. */
static inline int fastdl_one(int x,
                             int y)
{
    return 1;
}
#endif
"""

REFERENCE = """
### `fastdl_thing`

```c
typedef struct {
    int x;
    /* and private members */
} fastdl_thing;

#define FASTDL_THING(x) {x}
```

A thing. `x` is
for reading.

```text
thing t;
```

Cheap.

### `fastdl_make`

```c
int fastdl_make(fastdl_thing thing,
                void **out);
```

Makes `*out` of a `fastdl_thing`.

## More

### Constants

```c
enum {
    FASTDL_ONE = 1,
};
```

### `FASTDL_TWO`

```c
#define FASTDL_TWO \\
    2
```

Two lines.

"""

ANOTHER_SECTION = """
## With prose

As `FASTDL_ALL(x, ...)` is.

```c
typedef struct {
    int x;
} fastdl_int;

#define FASTDL_ALL(x, ...)
```

### `fastdl_one`

```c
int fastdl_one(int x,
               int y);
```

Of its own.

"""


def reference(folder, section):
    (folder / "a.h").write_text(HEADER)
    return quote.complete(f"before\n<!-- reference: a.h{section} -->\nafter\n", folder)


@pytest.mark.parametrize(("section", "text"), [("", REFERENCE), ("#After", ANOTHER_SECTION)])
def test_reference(tmp_path, section, text):
    assert reference(tmp_path, section) == f"before\n{text}after\n"


def test_what_cannot_be_referred_to(tmp_path, monkeypatch):
    with pytest.raises(quote.QuoteError, match='expected a section "Devices"'):
        reference(tmp_path, "#Devices")
    with pytest.raises(quote.QuoteError, match="there is no file"):
        quote.complete("<!-- reference: b.h -->", tmp_path)
    with pytest.raises(quote.QuoteError, match="cannot generate no.such:b"):
        quote.complete("<!-- site: no.such:b -->", tmp_path)
    monkeypatch.setitem(globals(), "HEADER", HEADER.replace("    FASTDL_ONE = 1,\n};", ""))
    with pytest.raises(quote.QuoteError, match="expected a declaration"):
        reference(tmp_path, "")


def test_reference_of_the_public_header_is_complete():
    """Each function that the design names, each type that they take, and nothing private."""
    text = "\n".join(quote.reference(ROOT / "include/fastdl/fastdl.h"))
    functions = "import borrow release own wrap empty work_stream expect exchange_api".split()
    for name in [*functions, "view", "spec", "dim", "argument"]:
        assert text.count(f"### `fastdl_{name}`\n") == 1, name
    assert "#define FASTDL_DIM(" in text
    assert "_;" not in text
