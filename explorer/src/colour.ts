// Colours of texts: one expression a language, for one row at a time. Rows are shown as text nodes.

export interface Token { kind: string; text: string }

const WORDS: Record<string, string> = {
  wir: "allocate|allocate_pool|reuse|free|call|kernel|extern|input|constant|symbol|return|yield|program|if|while|switch|probe|reinterpret|out|inout|in|assert|assert_layout|bind|compute|forward|backward|inference|planned|logical|stream|event|mempool|folding",
  python: "and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|None|not|or|pass|raise|return|True|False|try|while|with|yield|self",
  cpp: "auto|bool|break|case|char|class|const|constexpr|continue|double|else|extern|false|float|for|if|include|inline|int|int32_t|int64_t|long|namespace|new|nullptr|pragma|return|sizeof|static|struct|switch|template|true|typename|uint8_t|using|void|while",
};
const NAMES = { wir: String.raw`(?<buffer>%"(?:[^"\\]|\\.)*"|%[\w.$]+)|(?<kernel>@"(?:[^"\\]|\\.)*"|@[\w.$:]+)|(?<op>\b\w+::[\w.]+)|`, python: "", cpp: "" };
const COMMENT = { wir: String.raw`(?:\/\/|;).*`, python: "#.*", cpp: String.raw`\/\/.*|^\s*#\w+` };

export type Language = keyof typeof NAMES;

const made = new Map<Language, RegExp>();

function expression(language: Language): RegExp {
  let found = made.get(language);
  if (!found) {
    const strings = String.raw`(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`;
    found = new RegExp(`${NAMES[language]}(?<comment>${COMMENT[language]})|${strings}|` +
      String.raw`(?<number>\b\d[\w.]*)|(?<word>\b(?:${WORDS[language]})\b)`, "g");
    made.set(language, found);
  }
  return found;
}

/** The longest row that is coloured. */
const MOST = 2000;

export function tokens(row: string, language: Language): Token[] {
  if (row.length > MOST) return [{ kind: "", text: row }];
  const found: Token[] = [];
  let at = 0;
  for (const match of row.matchAll(expression(language))) {
    if (match.index > at) found.push({ kind: "", text: row.slice(at, match.index) });
    const [kind] = Object.entries(match.groups!).find(([, text]) => text !== undefined)!;
    found.push({ kind, text: match[0] });
    at = match.index + match[0].length;
  }
  if (at < row.length) found.push({ kind: "", text: row.slice(at) });
  return found;
}

/** For Python, whether each row begins inside of a string of several rows. */
export function quoted(rows: string[], language: Language): boolean[] {
  let inside = false;
  return rows.map((row) => {
    const before = inside;
    if (language === "python" && row.split('"""').length % 2 === 0) inside = !inside;
    return before || inside;
  });
}

/** The name that a token stands for: `%"a b"` is `a b`. */
export function nameOf(text: string): string {
  const name = text.slice(1);
  if (!name.startsWith('"')) return name;
  try { return JSON.parse(name); } catch { return name.slice(1, -1); }
}

/** The language of a target's text, or of a kernel's. */
export function languageOf(name: string): Language {
  return /^(c\+\+|cpp)$/i.test(name) ? "cpp" : "python";
}
