// Builds the page: one HTML file with its script and style inside, allowed by their hashes.
//
// The hash of all sources is written into the page, so that a test without node can tell whether it
// is up to date.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const room = new URL(".", import.meta.url).pathname;
const target = `${room}../wrapper_ir/explorer/page.html`;

const sha256 = (text) => createHash("sha256").update(text);

/** The hash of the sources: of each name and content, in the order of names. */
function sources() {
  const names = readdirSync(`${room}src`).map((name) => `src/${name}`);
  const hash = createHash("sha256");
  for (const name of ["build.mjs", "package-lock.json", "package.json", ...names].sort())
    hash.update(`${name}\0`).update(readFileSync(room + name)).update("\0");
  return hash.digest("hex");
}

async function bundled(entry) {
  const how = { bundle: true, minify: true, write: false, format: "iife", legalComments: "inline" };
  const made = await build({ entryPoints: [room + entry], target: "es2022", ...how,
    jsx: "automatic", jsxImportSource: "preact", charset: "ascii" });
  // A script ends at the first of these, wherever it stands.
  return made.outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
}

const [script, style] = [await bundled("src/main.tsx"), await bundled("src/style.css")];
const allowed = (text) => `'sha256-${sha256(text).digest("base64")}'`;
const policy = `default-src 'none'; script-src ${allowed(script)}; style-src ${allowed(style)}; ` +
  "img-src data:; base-uri 'none'; form-action 'none'";
writeFileSync(target, `<!doctype html>
<!-- wrapper_ir explorer, built from explorer/ by "make explorer". Sources: ${sources()} -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>wrapper_ir explorer</title>
<style>${style}</style>
</head>
<body>
<div id="app"><p class="loading">Reading the program …</p></div>
<noscript>This page needs JavaScript; it loads nothing from the network.</noscript>
<!--wrapper_ir:data-->
<script>${script}</script>
</body>
</html>
`);
