// The lists of versions in the pages, written from the last runs of the matrix.
const BEGIN = '<!-- versions: written by npm run matrix -->';
const END = '<!-- /versions -->';

/** One line for each product: the versions whose last run was clean, oldest first. */
export function versionLines(results) {
  const clean = Object.values(results).filter(({ failed, skipped, passed }) => failed + skipped === 0 && passed > 0);
  const products = [...new Set(clean.map(({ product }) => product))];
  return products.map((product) => {
    const versions = clean.filter((result) => result.product === product).map(({ version }) => version);
    return `${product} ${[...new Set(versions)].sort(byNumber).join(', ')}`;
  });
}

function byNumber(one, other) {
  return one.localeCompare(other, 'en', { numeric: true });
}

/** The page with the text between its marks made anew. */
export function withVersionLines(page, lines) {
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from === -1 || to < from) throw new Error('The page has no place for the versions.');
  return `${page.slice(0, from + BEGIN.length)}\n\n${lines.map((line) => `- ${line}`).join('\n')}\n\n${page.slice(to)}`;
}
