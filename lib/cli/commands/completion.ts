import { bashCompletion, fishCompletion, zshCompletion } from '../completion-scripts.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export const COMPLETION: CliCommand = {
  name: 'completion',
  summary: 'Print the completion script of a shell',
  args: '<bash|zsh|fish>',
  argChoices: ['bash', 'zsh', 'fish'],
  connects: false,
  async run({ terminal, commands }, { args }) {
    const script = SCRIPTS[args[0] as keyof typeof SCRIPTS];
    terminal.out(script(commands));
    return EXIT.ok;
  },
};
