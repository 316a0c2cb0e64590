/** What the command line does before it destroys, and when it is interrupted. */
export const COMMAND_LINE = [
  {
    name: 'command-asks-nobody',
    breaks: 'a command that destroys takes every answer as yes',
    file: 'lib/cli/confirm.ts',
    from: 'if (answer !== undefined && /^y(es)?$/i.test(answer.trim())) return;',
    to: 'if (answer !== undefined) return;',
    contract: 'test/cli/terminal.spec.ts',
  },
  {
    name: 'command-needs-no-yes',
    breaks: 'a command that destroys runs where nobody can be asked',
    file: 'lib/cli/confirm.ts',
    from: "if (given.options['yes'] === true || isDryRun(given) || isInteractive) return;",
    to: "if (given.options['yes'] === true || isDryRun(given) || isInteractive || given.args.length >= 0) return;",
    contract: 'test/cli/commands.spec.ts',
  },
  {
    name: 'command-dry-run-runs',
    breaks: '--dry-run changes messages',
    file: 'lib/cli/confirm.ts',
    from: "=> options['dryRun'] === true;",
    to: "=> options['dryRun'] === 'never';",
    contract: 'test/cli/commands.spec.ts',
  },
  {
    name: 'command-goes-on-after-ctrl-c',
    breaks: 'Ctrl-C in the middle of many does not end the loop',
    file: 'lib/cli/chunks.ts',
    from: 'if (interrupt.isAsked) return { done, interrupted: true };',
    to: 'if (interrupt.isAsked && done < 0) return { done, interrupted: true };',
    contract: 'test/cli/terminal.spec.ts',
  },
].map((mutant) => ({ chaos: false, simulation: false, ...mutant }));
