// The site: the same Markdown as in the repository and in the package, with search. `npm run docs`, `npm run docs:build`.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { entries } from '../reference/pages.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');
const { name, description, homepage } = JSON.parse(read('package.json'));
const repository = homepage.replace(/#.*$/, '');
/** Folders whose Markdown is no page. */
const NO_PAGES = ['node_modules', 'dist', 'dist.*', 'etc', 'lib', 'sample', 'test', 'tmp', '.cache', 'coverage'];
/** A folder's README is its first page. */
const FIRST_PAGES = ['', 'bench/', 'docs/internals/failures/', 'docs/transports/'];

export default defineConfig({
  title: name,
  description,
  lang: 'en',
  srcDir: '../..',
  srcExclude: NO_PAGES.map((folder) => `${folder}/**`),
  outDir: '../../.cache/site',
  cacheDir: '../../.cache/vitepress',
  rewrites: {
    ...Object.fromEntries(FIRST_PAGES.map((folder) => [`${folder}README.md`, `${folder}index.md`])),
    'tools/site/reference/:entry': 'reference/:entry',
  },
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => md.core.ruler.push('links of the repository', ({ tokens }) => tokens.forEach(changeLinks)),
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'First steps', link: '/docs/first-steps' },
      { text: 'Guarantees', link: '/docs/guarantees' },
      { text: 'Recipes', link: '/docs/recipes' },
      { text: 'API', link: '/reference/main' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: [
      ...groupsOfReadme(),
      { text: 'API reference', collapsed: true, items: entries().map(linkOf) },
      group('To contribute', ['CONTRIBUTING.md', ...pagesIn('docs/internals'), ...pagesIn('bench')]),
    ],
    socialLinks: [{ icon: 'github', link: repository }],
  },
});

function read(file) {
  return readFileSync(join(root, file), 'utf8');
}

/** Anchors are those of the repository's host, as the links in the pages are checked against them. */
function slugOf(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');
}

/** Links to a README go to the first page of its folder, those to a file that is no page to the repository. */
function changeLinks(token) {
  token.children?.forEach(changeLinks);
  const href = token.type === 'link_open' ? token.attrGet('href') : null;
  if (href === null) return;
  if (/(^|\/)README\.md(#|$)/.test(href)) token.attrSet('href', href.replace('README.md', 'index.md'));
  if (href === 'LICENSE') token.attrSet('href', `${repository}/blob/main/LICENSE`);
}

/** The table of pages in the README is the table of contents. */
function groupsOfReadme() {
  const [, table] = read('README.md').split('\n## The pages\n');
  return [...table.matchAll(/^\| (\w[\w ]+) \| (\[.+) \|$/gm)].map(([, you, links]) =>
    group(
      `You ${you}`,
      [...links.matchAll(/\]\(([^)]+)\)/g)].map(([, file]) => file),
    ),
  );
}

function group(text, files) {
  const items = files.map((file) => ({ text: titleOf(file), link: `/${file.replace(/README\.md$|\.md$/, '')}` }));
  return { text, collapsed: text.startsWith('To'), items };
}

function linkOf({ title, slug }) {
  return { text: title, link: `/reference/${slug}` };
}

function titleOf(file) {
  const [, title] = /^# (.+)$/m.exec(read(file)) ?? [];
  if (title === undefined) throw new Error(`${file} has no title`);
  return title.replaceAll('`', '');
}

function pagesIn(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => posix.join(folder, file.replaceAll('\\', '/')))
    .filter((file) => file.endsWith('.md'))
    .sort();
}
