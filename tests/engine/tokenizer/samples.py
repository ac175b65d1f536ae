"""Text to tokenise, the same on every machine: token salad for many languages and a Unicode torture set."""

# ruff: noqa: RUF001, E501 - odd characters and tables are the point here

import random
import sysconfig
from pathlib import Path

# language: (keywords, operators and punctuation, comment, indentation unit)
LANGUAGES = {
    "python": ("def return if elif else for in while class import from as with yield lambda None True not "
               "async await raise except finally self", "( ) [ ] { } : , . = == != += -> ** // % @ :=", "# ", "    "),
    "javascript": ("function const let var return if else for of in new class extends async await null "
                   "undefined typeof export default", "( ) [ ] { } ; , . => === !== ?? ?. += && || `", "// ", "  "),
    "typescript": ("interface type enum readonly implements private public keyof infer never unknown as "
                   "string number boolean", "( ) [ ] { } ; : , . => <T> | & ? = [] !", "// ", "  "),
    "rust": ("fn let mut impl struct enum match if else for in loop pub use crate self Self Option Some None "
             "Ok Err dyn where async move", "( ) [ ] { } ; :: , . -> => & &mut ? ! |x| .. ..= 'a #[derive(Debug)]",
             "/// ", "    "),
    "go": ("func package import return if else for range struct interface map chan go defer select nil err "
           "string int", "( ) [ ] { } := = != <- , . & * ... `json:\"id\"`", "// ", "\t"),
    "c": ("int char void struct typedef static const return if else for while switch case break sizeof NULL "
          "unsigned long", "( ) [ ] { } ; , . -> * & == != ++ << >> # %d\\n", "/* ", "\t"),
    "cpp": ("template typename class namespace std::vector auto const constexpr noexcept override virtual "
            "return nullptr using", "( ) [ ] { } ; :: , . -> && || <> <<= >>= [&] [=]() *this", "// ", "  "),
    "java": ("public private static final class interface extends implements new return throws try catch "
             "void String List<String> @Override", "( ) [ ] { } ; , . = == != <?> -> :: +=", "/** ", "    "),
    "ruby": ("def end class module do if unless elsif each yield nil true require attr_accessor lambda begin "
             "rescue", "( ) [ ] { } |x| => :sym . , = == @ivar @@cvar $glob #{} &.", "# ", "  "),
    "shell": ("if then fi for do done while case esac function local export echo set -euo pipefail return",
              "$( ) [[ ]] { } | || && > >> 2>&1 ; \"$@\" ${x:-y} $((i+1)) <<'EOF'", "# ", "  "),
    "html": ("div span class= href= script style body head meta input type= value= data-id= aria-label=",
             "< > </ /> = \" ' &nbsp; &#x27; <!-- --> <!DOCTYPE html>", "<!-- ", "\t"),
    "sql": ("SELECT FROM WHERE JOIN LEFT ON GROUP BY ORDER INSERT INTO VALUES CREATE TABLE NOT NULL PRIMARY "
            "KEY varchar(255)", "( ) , ; . = <> >= * || :: '%a_b%' $1", "-- ", "  "),
}  # fmt: skip

_WORDS = (
    "index buffer user_id getElementById HTTPServer parseJSON maxRetries i x2 snake_case_name CamelCase "
    "config token __init__ λ naïve größe 変数 переменная count tmp request Response errno utf8 v1 sha256"
)


def salad(language, seed, lines=400):
    """Lines with the look of a language: deterministic by seed."""
    draw = random.Random(f"{language}-{seed}")
    keywords, marks, comment, unit = LANGUAGES[language]
    keywords, marks, words = keywords.split(), marks.split(), _WORDS.split()
    rows = []
    depth = 0
    for _ in range(lines):
        depth = max(0, min(6, depth + draw.choice((-1, 0, 0, 1))))
        kind = draw.random()
        if kind < 0.12:
            rows.append(unit * depth if draw.random() < 0.2 else "")
        elif kind < 0.25:
            rows.append(unit * depth + comment + " ".join(draw.choices(words, k=draw.randint(1, 9))))
        else:
            parts = []
            for _ in range(draw.randint(1, 14)):
                pool = draw.choice(
                    (keywords, marks, words, ("0", "42", "3.14", "0xFF", "1_000", "'s'", '"Don\'t"'))
                )
                parts.append(draw.choice(pool))
                parts.append(draw.choice((" ", "", " ", "  ")))
            rows.append(unit * depth + "".join(parts))
    return draw.choice(("\n", "\n", "\r\n")).join(rows) + draw.choice(("", "\n"))


def standard_library(count):
    """Texts of Python's own library: real code, wherever Python is."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(path for path in folder.glob("*.py"))[:count]
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths]


TORTURE = {
    "empty": "",
    "one blank": " ",
    "nul": "a\0b\0\0c",
    "bom": "\ufefffirst\n\ufeff",
    "all of ASCII": "".join(map(chr, range(128))),
    "all of Latin-1": "".join(map(chr, range(256))),
    "control characters": "".join(map(chr, [*range(32), 127, *range(0x80, 0xA0)])) * 2,
    "emoji ZWJ": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇯🇵 #️⃣ ☕️ 1️⃣2️⃣",
    "combining": "e\u0301 n\u0303 a\u030a\u0323 Z͑ͫ̓a̴l̶g̷o̸ क्षि நி ก็",
    "CJK": "中文字符。日本語のテスト、カタカナ한국어 문장입니다　全角　ＡＢＣ１２３",
    "rare CJK": "𠀀𠀁𪚥 㐀㐁 \U0002f800 \U000e0100",
    "RTL": "שלום עולם مرحبا بالعالم \u200f\u200e\u202e abc \u202c ١٢٣",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf\rg\r\nh\n\r\n\ri",
    "spaces": "a\u00a0b\u1680c\u2000\u2001\u2002d\u202fe\u205ff\u3000g\u180eh\u200bi \u00a0 j",
    "tabs and blanks": "\t\t x\t\ty \t \t\n\t\n  \n \t\n    z",
    "blank run": " " * 1000 + "x" + " " * 257 + "\n" + " " * 64,
    "newline run": "\n" * 300 + "x" + "\r\n" * 100,
    "letter run": "a" * 3000 + "\n" + "ab" * 1500,
    "digit run": "1234567890" * 200 + " " + "0" * 999,
    "dash run": "-" * 1000 + "=" * 500 + "#" * 333 + "/" * 77,
    "emoji run": "😀" * 300,
    "contractions": "I'm you're he'd we'll they've it's DON'T Can'T 'S 'll 'LL'm ''s x'sy",
    "digits": "1 12 123 1234 12345 1.5e-10 0x1F 1_000 ½ ² Ⅷ ٣ 一二三 ௧",
    "symbols": "!=<=>=->=>::...&&||??.?.,;:+=-=*=/=%=^=~`@#$%^&*()[]{}<>\\|'\"_",
    "mathematics": "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ ∑∫√∞ 𝕬𝖇𝖈 𝟙𝟚",
    "private and unassigned": "\ue000\uf8ff\U000f0000\U0010ffff\u0378\uffff\ufffe",
    "replacement": "\ufffd\ufffd a\ufffdb",
    "title case": "ǅ ǈ ŉ ß ẞ İ ı ſ K Å",
    "markers": "<|fim_prefix|>a<|im_end|><|endoftext|><tool_call>b</tool_call></s><unk>[PAD151665]<fim_prefix>",
    "broken markers": "<|fim_prefix|<|im_end>|><|<|im_start|>|><tool_call",
    "every length of UTF-8": "".join(
        map(chr, [*range(0x80, 0x800, 7), *range(0x800, 0xD800, 501), *range(0x10000, 0x110000, 30011)])
    ),
}  # fmt: skip


def fixed_texts():
    """name -> text: the samples that are the same on every machine."""
    texts = {f"torture: {name}": text for name, text in TORTURE.items()}
    corpus = sorted(Path(__file__).with_name("corpus").iterdir())
    texts |= {f"corpus: {path.name}": path.read_text() for path in corpus}
    for language in LANGUAGES:
        texts |= {f"salad: {language} {seed}": salad(language, seed) for seed in range(2)}
    return texts


def code_points():
    """Lines of text that show every code point of planes 0 to 3 and 14 in several places, and some of the
    other planes, where nothing is assigned but private use."""
    points = [
        *range(0xD800),
        *range(0xE000, 0x34000),
        *range(0x34000, 0x110000, 89),
        *range(0xE0000, 0xE0200),
    ]
    for start in range(0, len(points), 256):
        yield "".join(f"a{chr(p)}b {chr(p)}{chr(p)} 1{chr(p)}\n" for p in points[start : start + 256])
