import { refuseUsage } from './exit-code.js';

/** `scheme://user:password@`, also inside of `--url=…`. */
const WITH_PASSWORD = /[a-z][a-z0-9+.-]*:\/\/[^\s/@:]*:[^\s/]+@/i;

/** Everybody on the machine can read what a process was started with, and shells keep it. @throws CliError */
export function refuseSecrets(argv: readonly string[]): void {
  const place = argv.findIndex((arg) => WITH_PASSWORD.test(arg) || /[?&](?:password|pwd)=[^&]/i.test(arg));
  if (place === -1) return;
  refuseUsage(
    `Argument ${place + 1} is a URL with a password, which others can read in the list of processes. Put it into OUTBOX_DATABASE_URL or a config file.`,
  );
}
