import type { DoctorReport, Finding } from '../../index.js';
import { unreachedReport } from '../../doctor/unreached.js';
import { printable } from '../../observe/redact/printable.js';
import { stopwatch, systemClock } from '../../time/clock.js';
import type { CliCommand } from '../command.js';
import { readDuration } from '../common-options.js';
import { TooLate, type OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { shellCommands } from '../shell-commands.js';
import { paint } from '../style.js';
import { jsonLine, type Terminal } from '../terminal.js';
import { number } from '../words.js';

/** Milliseconds that the doctor may take, and what opening and closing take of the command's own time. */
const [LEAST, MOST, BESIDE] = [1_000, 300_000, 2_000];

export const DOCTOR: CliCommand = {
  name: 'doctor',
  summary: 'Check tables, server, relays and brokers, and say what to do',
  options: [
    { flags: '--all', help: 'also show the checks that passed' },
    { flags: '--outage <duration>', help: 'the outage that must fit; default: 1h', read: readDuration },
    { flags: '--free-bytes <bytes>', help: 'free bytes for the tables, if the database does not say', read: readBytes },
    { flags: '--table-bytes <bytes>', help: 'the most bytes that the tables may take', read: readBytes },
    { flags: '--held-for <duration>', help: 'the oldest transaction that is fine; default: 1m', read: readDuration },
    { flags: '--skip-brokers', help: 'ask no broker' },
  ],
  async run({ open, settings, terminal, json }, { options: { all, skipBrokers, ...given } }) {
    const { timeout, source } = await settings();
    const { outage, freeBytes, tableBytes, heldFor } = given as Record<string, number | undefined>;
    const diagnosed = ({ doctor, isConfigured }: OpenOutbox): Promise<DoctorReport> =>
      doctor.diagnose({
        ...(outage === undefined ? {} : { outage }),
        ...(freeBytes === undefined ? {} : { freeBytes }),
        ...(tableBytes === undefined ? {} : { tableBytes }),
        ...(heldFor === undefined ? {} : { heldFor }),
        brokers: skipBrokers !== true && isConfigured, // tables name no broker
        timeout: Math.min(MOST, Math.max(LEAST, timeout - BESIDE)),
      });
    const [at, took] = [new Date(), stopwatch(systemClock)];
    const report = await open({ checked: false }) // what is wrong with the tables is one of its findings
      .then((outbox) => outbox.answer(diagnosed(outbox)))
      .catch((error: unknown) => {
        const unreached = unreachedReport(error, {
          at,
          took: Math.round(took()),
          isSilent: source.kind === 'database' && error instanceof TooLate, // a module may wait for something else
        });
        if (unreached === undefined) throw error;
        return unreached;
      });
    if (json) terminal.out(jsonLine({ ...report, findings: report.findings.map(withCommands) }));
    else for (const line of linesOf(report, all === true, terminal)) terminal.out(line);
    if (!json && source.kind === 'database' && skipBrokers !== true)
      terminal.out('\nNo broker was asked: a database names none. Give --module to ask those of the application.');
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

function findingLines(finding: Finding, { colors }: Terminal): string[] {
  const { severity, code, text, evidence, consequence, fix } = finding;
  const facts = Object.entries(evidence).map(([name, fact]) => `${name}=${factText(fact)}`);
  const line = (label: string, value: string | null): string[] =>
    value === null || value === '' ? [] : [`  ${paint(label.padEnd(8), 'dim', colors)} ${printable(value)}`];
  return [
    `${paint(severity, STYLES[severity], colors)} ${code}: ${printable(text)}`,
    ...line('means', consequence),
    ...line('do', fix === null ? null : withFlags(fix)),
    ...commandsOf(finding).flatMap((command) => line('shell', command)),
    ...line('evidence', facts.join(', ')),
  ];
}

/** Options of `diagnose()`, as this command has them. */
const withFlags = (fix: string): string =>
  fix.replace(/ to diagnose\(\)/g, '').replace(/\b(freeBytes|tableBytes|heldFor)\b/g, (name) => FLAGS[name] ?? name);
const FLAGS: Readonly<Record<string, string>> = {
  freeBytes: '--free-bytes',
  tableBytes: '--table-bytes',
  heldFor: '--held-for',
};

/** Of what is as it should be there are none. A name that the finding has is filled in, unless a shell would read more in it. */
function commandsOf({ severity, text, fix, evidence }: Finding): string[] {
  const filled = (slot: string, name: string): string => {
    const known = String(evidence[name] ?? evidence[`${name}s`] ?? '');
    return /^[\w.-]+$/.test(known) ? known : slot;
  };
  const commands = severity === 'ok' ? [] : shellCommands(`${text} ${fix ?? ''}`);
  return commands.map((command) => command.replace(/<(\w+)>/g, filled));
}

function withCommands(finding: Finding): Finding & { readonly commands: readonly string[] } {
  return { ...finding, commands: commandsOf(finding) };
}

const factText = (fact: Finding['evidence'][string]): string =>
  fact instanceof Date ? fact.toISOString() : String(fact ?? 'none');
