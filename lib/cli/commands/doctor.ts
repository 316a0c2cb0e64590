import type { DoctorReport, Finding } from '../../index.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand } from '../command.js';
import { readDuration } from '../common-options.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { paint } from '../style.js';
import { jsonLine, type Terminal } from '../terminal.js';
import { number } from '../words.js';

/** Milliseconds that the doctor may take, and what opening and closing take of the command's own time. */
const [LEAST, MOST, BESIDE] = [1_000, 300_000, 2_000];

export const DOCTOR: CliCommand = {
  name: 'doctor',
  summary: 'Look at tables, server, relays and brokers, and say what to do',
  options: [
    { flags: '--all', help: 'show also what is as it should be' },
    { flags: '--outage <duration>', help: 'how long the broker may be down at least; default: 1h', read: readDuration },
    { flags: '--free-bytes <bytes>', help: 'room for the tables, where the database does not tell', read: readBytes },
    { flags: '--table-bytes <bytes>', help: 'what the tables may take together', read: readBytes },
    { flags: '--held-for <duration>', help: 'how old a transaction may be; default: 1m', read: readDuration },
    { flags: '--skip-brokers', help: 'ask no broker' },
  ],
  async run({ open, settings, terminal, json }, { options: { all, skipBrokers, ...given } }) {
    const { timeout } = await settings();
    const outbox = await open({ checked: false }); // what is wrong with the tables is one of its findings
    const { outage, freeBytes, tableBytes, heldFor } = given as Record<string, number | undefined>;
    const report = await outbox.answer(
      outbox.doctor.diagnose({
        ...(outage === undefined ? {} : { outage }),
        ...(freeBytes === undefined ? {} : { freeBytes }),
        ...(tableBytes === undefined ? {} : { tableBytes }),
        ...(heldFor === undefined ? {} : { heldFor }),
        brokers: skipBrokers !== true && outbox.isConfigured, // tables name no broker
        timeout: Math.min(MOST, Math.max(LEAST, timeout - BESIDE)),
      }),
    );
    if (json) terminal.out(jsonLine(report));
    else for (const line of linesOf(report, all === true, terminal)) terminal.out(line);
    return report.severity === 'ok' || report.severity === 'note' ? EXIT.ok : EXIT.nothing;
  },
};

function readBytes(text: string): number {
  const bytes = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  return Number.isSafeInteger(bytes) ? bytes : refuseUsage('It must be a whole number of bytes.');
}

const STYLES = { error: 'red', warning: 'yellow', note: 'bold', ok: 'green' } as const;

function linesOf({ severity, findings, took }: DoctorReport, all: boolean, terminal: Terminal): string[] {
  const shown = findings.filter((finding) => all || finding.severity !== 'ok');
  const summary = `${number(findings.length)} looked at in ${number(took)} ms, ${number(findings.length - shown.length)} more are ok`;
  return [
    `doctor: ${paint(severity, STYLES[severity], terminal.colors)} (${summary})`,
    ...shown.flatMap((finding) => ['', ...findingLines(finding, terminal)]),
  ];
}

function findingLines({ severity, code, text, evidence, consequence, fix }: Finding, { colors }: Terminal): string[] {
  const facts = Object.entries(evidence).map(([name, fact]) => `${name}=${factText(fact)}`);
  const line = (label: string, value: string | null): string[] =>
    value === null || value === '' ? [] : [`  ${paint(label.padEnd(8), 'dim', colors)} ${printable(value)}`];
  return [
    `${paint(severity, STYLES[severity], colors)} ${code}: ${printable(text)}`,
    ...line('means', consequence),
    ...line('do', fix),
    ...line('evidence', facts.join(', ')),
  ];
}

const factText = (fact: Finding['evidence'][string]): string =>
  fact instanceof Date ? fact.toISOString() : String(fact ?? 'none');
