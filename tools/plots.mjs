// Draws the tables of bench/results.md as pictures of docs/pictures. With --check it only compares them.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const results = readFileSync(join(root, 'bench', 'results.md'), 'utf8');
const STYLE = `
    .page { fill: #ffffff; }
    .first { fill: #3567c4; stroke: #3567c4; }
    .second { fill: #c2620a; stroke: #c2620a; }
    .text { fill: #1a2230; }
    .quiet { fill: #4d586a; font-size: 12px; }
    .over { paint-order: stroke; stroke: #ffffff; stroke-width: 4; }
    .grid { stroke: #d9dee6; }
    .mark { stroke: #1a2230; stroke-width: 1.6; fill: none; }
    .line { fill: none; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #12161d; }
      .first { fill: #7ea6f4; stroke: #7ea6f4; }
      .second { fill: #f0a35e; stroke: #f0a35e; }
      .text { fill: #edf1f7; }
      .quiet { fill: #b3bdcc; }
      .over { stroke: #12161d; }
      .grid { stroke: #333d4c; }
      .mark { stroke: #edf1f7; }
      .line { fill: none; }
    }`;

const pictures = {
  'figures-throughput.svg': throughput(),
  'figures-strict.svg': strictOrder(),
  'figures-hour.svg': hour(),
  'figures-relays.svg': relays(),
  'figures-batches.svg': batches(),
};
for (const [name, svg] of Object.entries(pictures)) {
  const file = join(root, 'docs', 'pictures', name);
  if (!process.argv.includes('--check')) writeFileSync(file, svg);
  else if (!existsSync(file) || readFileSync(file, 'utf8') !== svg) {
    console.error(`docs/pictures/${name} is not what bench/results.md says: node tools/plots.mjs`);
    process.exitCode = 1;
  }
}

/** @returns the cells of the rows of the first table that stands behind `after` and has `head` as its first cell */
function table(after, head) {
  const from = results.indexOf(head === '' ? '| | ' : `| ${head} |`, results.indexOf(after));
  if (from === -1) throw new Error(`bench/results.md has no table of ${head}`);
  const [block] = results.slice(from).split('\n\n');
  return block
    .trim()
    .split('\n')
    .filter((line, index) => index !== 1)
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

/** Numbers as the tables write them: 1,509 or 0.49. */
function numbers(text) {
  return [...text.matchAll(/\d[\d,]*(?:\.\d+)?/g)].map(([found]) => Number(found.replaceAll(',', '')));
}

function throughput() {
  const names = { drain: 'drain, by the bare SELECT', enqueue: 'enqueue, by the bare transaction' };
  names.rabbitmq = 'RabbitMQ, by amqplib alone';
  names.kafka = 'Kafka, by kafkajs alone';
  const rows = table('# Results', 'benchmark').filter(
    ([name, what]) => /share of/.test(what) && name.slice(1, -1) in names,
  );
  const bars = rows.map(([name, , target, result, range]) => {
    const [value] = numbers(result);
    return { label: names[name.slice(1, -1)], values: [{ value, range: numbers(range), target: numbers(target)[0] }] };
  });
  return shares({
    title: 'Throughput of the outbox, by what it stands on',
    note: 'share of the throughput without the outbox; the thin line is the range of five runs, the dashed line is the target',
    bars,
  });
}

function strictOrder() {
  const [, ...rows] = table('## The order of commits', 'a transaction');
  const bars = rows.map(([label, , postgres, , , mariadb]) => ({
    label: label.replace(' before the commit', ''),
    values: [postgres, mariadb].map((cell) => {
      const [value, ...range] = numbers(cell);
      return { value, range };
    }),
  }));
  return shares({
    title: "Transactions with ordering: 'strict', by those with 'key'",
    note: 'share of the rate; the thin line is the range of the runs',
    legend: ['PostgreSQL', 'MariaDB'],
    bars,
  });
}

/** Horizontal bars from 0 to 1, one group for each label. */
function shares({ title, note, legend = [], bars }) {
  const [left, right, top] = [290, 860, 96];
  const most = Math.max(1, ...bars.flatMap(({ values }) => values.flatMap(({ range }) => range)));
  const x = (share) => round(left + (share / most) * (right - left));
  const parts = [];
  let y = top;
  for (const { label, values } of bars) {
    parts.push(text(left - 14, y + values.length * 11 + 1, label, 'text', 'end'));
    values.forEach(({ value, range: [low, high], target }, index) => {
      const middle = y + 8;
      parts.push(
        `<rect class="${['first', 'second'][index]}" x="${left}" y="${y}" width="${round(x(value) - left)}" height="16" />`,
      );
      if (high !== undefined)
        parts.push(
          `<path class="mark" d="M${x(low)} ${middle} H${x(high)} M${x(low)} ${middle - 4} v8 M${x(high)} ${middle - 4} v8" />`,
        );
      if (target !== undefined)
        parts.push(`<path class="mark" d="M${x(target)} ${y - 5} v26" stroke-dasharray="3 2" />`);
      parts.push(text(x(Math.max(value, high ?? 0, target ?? 0)) + 10, y + 13, value.toFixed(2), 'text over'));
      y += 22;
    });
    y += 16;
  }
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (share) => `${line(x(share), top - 12, x(share), y - 8)}${text(x(share), y + 8, share, 'quiet', 'middle')}`,
  );
  return picture({ title, note, legend, height: y + 22, body: [...grid, ...parts], says: saysOf(bars, legend) });
}

function saysOf(bars, legend) {
  return bars
    .map(
      ({ label, values }) =>
        `${label}: ${values.map(({ value }, index) => `${legend[index] ? `${legend[index]} ` : ''}${value}`).join(', ')}`,
    )
    .join('. ');
}

function hour() {
  const [head, ...rows] = table('## An hour of load', '');
  const row = (name) =>
    rows
      .find(([label]) => label.startsWith(name))
      .slice(1)
      .map((cell) => numbers(cell)[0]);
  const lines = [
    { label: 'p50', values: row('latency p50') },
    { label: 'p99', values: row('latency p99') },
  ];
  const [, rate] = /^`load`.*?: ([\d,]+) messages\/s/m.exec(results);
  const memory = { label: 'memory', values: row('resident memory') };
  const latency = panel({
    left: 90,
    width: 340,
    title: 'latency, ms',
    from: 1,
    to: 1000,
    log: true,
    ticks: [1, 10, 100, 1000],
    lines,
    head: head.slice(1),
  });
  const resident = panel({
    left: 560,
    width: 340,
    title: 'memory of the relay, MB',
    from: 0,
    to: 300,
    ticks: [0, 100, 200, 300],
    lines: [memory],
    head: head.slice(1),
  });
  return picture({
    title: 'An hour of load',
    note: `medians of the minutes in each quarter of the hour; RabbitMQ, ${rate} messages a second on two cores`,
    height: 340,
    body: [...latency, ...resident],
    says: [...lines, memory].map(({ label, values }) => `${label}: ${values.join(', ')}`).join('. '),
  });
}

/** Points that are joined by lines, over the columns of a table. */
function panel({
  left,
  width,
  title,
  from,
  to,
  log = false,
  ticks,
  lines,
  head,
  unit = ' min',
  show = String,
  apart = false,
}) {
  const [top, bottom] = [110, 290];
  const scale = log ? Math.log10 : (value) => value;
  const base = scale(from);
  const y = (value) => round(bottom - ((scale(value) - base) / (scale(to) - base)) * (bottom - top));
  const x = (index) => round(left + 40 + (index / (head.length - 1)) * (width - 80));
  return [
    text(left, top - 16, title, 'text'),
    ...ticks.map(
      (tick) =>
        `${line(left, y(tick), left + width, y(tick))}${text(left - 8, y(tick) + 4, show(tick), 'quiet', 'end')}`,
    ),
    ...head.map((label, index) => text(x(index), bottom + 20, `${label}${unit}`, 'quiet', 'middle')),
    ...lines.flatMap(({ label, values }, index) => {
      const kind = ['first', 'second'][index];
      const points = values.map((value, at) => `${x(at)} ${y(value)}`);
      return [
        `<path class="${kind} line" d="M${points.join(' L')}" />`,
        ...values.map(
          (value, at) =>
            `<circle class="${kind}" cx="${x(at)}" cy="${y(value)}" r="4" />${text(x(at), y(value) + (apart && index === 1 ? 20 : -10), show(value), 'quiet over', 'middle')}`,
        ),
        ...(lines.length > 1 ? [text(left + width - 26, y(values.at(-1)) + 4, label, 'text')] : []),
      ];
    }),
  ];
}

function relays() {
  const rows = table('## Many instances', 'relays').slice(1);
  const drains = rows.map(([count, , , , , , drain]) => ({ count: Number(count), values: numbers(drain) }));
  const [left, right, top] = [120, 860, 108];
  const x = (value) => round(left + (value / 120_000) * (right - left));
  const body = [0, 30_000, 60_000, 90_000, 120_000].map(
    (tick) =>
      `${line(x(tick), top - 20, x(tick), top + 96)}${text(x(tick), top + 114, thousands(tick), 'quiet', 'middle')}`,
  );
  drains.forEach(({ count, values }, index) => {
    const y = top + 14 + index * 52;
    body.push(text(left - 14, y + 5, `${count} relay${count === 1 ? '' : 's'}`, 'text', 'end'));
    body.push(...values.map((value) => `<circle class="first" cx="${x(value)}" cy="${y}" r="5" fill-opacity="0.7" />`));
    body.push(text(x(Math.min(...values)), y - 12, thousands(Math.min(...values)), 'quiet over', 'middle'));
    if (Math.max(...values) - Math.min(...values) > 5_000)
      body.push(text(x(Math.max(...values)), y - 12, thousands(Math.max(...values)), 'quiet over', 'middle'));
  });
  return picture({
    title: 'A backlog of 100,000, drained by one relay and by eight',
    note: 'messages a second on PostgreSQL, three runs each; two cores, other tests beside it',
    height: top + 134,
    body,
    says: drains
      .map(({ count, values }) => `${count}: ${values.map(thousands).join(', ')} messages a second`)
      .join('. '),
  });
}

function batches() {
  const [[, ...head], ...rows] = table('## The size of a batch', 'payload, relays');
  const of = (relays) =>
    ['100 bytes', '10,000 bytes'].map((payload) => {
      const [, ...cells] = rows.find(([label]) => label === `${payload}, ${relays}`);
      return {
        label: payload.replace(',000 bytes', ' kB').replace(' bytes', ' B'),
        values: cells.map((cell) => numbers(cell)[0]),
      };
    });
  const common = {
    width: 340,
    from: 1_000,
    to: 1_000_000,
    log: true,
    ticks: [1_000, 10_000, 100_000, 1_000_000],
    head,
  };
  const show = (value) => `${value < 10_000 ? round(value / 1_000) : Math.round(value / 1_000)} k`;
  const both = [1, 4].map((relays) => ({ relays, lines: of(relays) }));
  return picture({
    title: 'Messages a second by the size of a batch',
    note: 'a backlog of 20,000 on PostgreSQL, a transport that costs nothing; payloads of 100 bytes and of 10 kB',
    height: 340,
    body: both.flatMap(({ relays, lines }, index) =>
      panel({
        ...common,
        left: 90 + index * 470,
        title: relays === 1 ? 'one relay' : 'four relays in one process',
        lines,
        unit: '',
        show,
        apart: true,
      }),
    ),
    says: both
      .flatMap(({ relays, lines }) =>
        lines.map(({ label, values }) => `${relays}, ${label}: ${values.map(thousands).join(', ')}`),
      )
      .join('. '),
  });
}

function picture({ title, note, legend = [], height, body, says }) {
  const keys = legend.flatMap((name, index) => [
    `<rect class="${['first', 'second'][index]}" x="${700 + index * 120}" y="22" width="12" height="12" />`,
    text(718 + index * 120, 33, name, 'text'),
  ]);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 ${height}" width="960" height="${height}" role="img" aria-labelledby="title desc" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="14">`,
    `<title id="title">${escaped(title)}</title>`,
    `<desc id="desc">${escaped(says)}.</desc>`,
    `<style>${STYLE}\n  </style>`,
    `<rect class="page" width="960" height="${height}" rx="8" />`,
    `<text class="text" x="24" y="34" font-size="16" font-weight="600">${escaped(title)}</text>`,
    text(24, 56, note, 'quiet'),
    ...keys,
    ...body,
  ];
  return `${lines.join('\n  ')}\n</svg>\n`;
}

function text(x, y, words, kind, anchor = 'start') {
  return `<text class="${kind}" x="${x}" y="${y}" text-anchor="${anchor}">${escaped(String(words))}</text>`;
}

function line(x1, y1, x2, y2) {
  return `<path class="grid" d="M${x1} ${y1} L${x2} ${y2}" />`;
}

function escaped(words) {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

function round(value) {
  return Math.round(value * 10) / 10;
}

function thousands(value) {
  return value.toLocaleString('en-US');
}
