import type { CliCommand, CliOption } from './command.js';
import { optionsOf } from './common-options.js';

/** Scripts from the table of commands: words, no call of the command line while somebody types. */
const NAME = 'nestjs-outbox';

interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly {
    readonly names: readonly string[];
    readonly help: string;
    readonly choices: readonly string[];
    readonly takesValue: boolean;
  }[];
  readonly words: readonly string[];
}

function completed(commands: readonly CliCommand[]): Completed[] {
  return commands.map((command) => ({
    name: command.name,
    summary: command.summary,
    options: optionsOf(command).map(completedOption),
    words: command.argChoices ?? [],
  }));
}

function completedOption({ flags, help, choices = [] }: CliOption): Completed['options'][number] {
  return { names: flags.match(/--?[\w-]+/g) ?? [], help, choices, takesValue: flags.includes('<') };
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function bashCompletion(commands: readonly CliCommand[]): string {
  const cases = completed(commands).map(({ name, options, words }) => {
    const names = options.flatMap((option) => option.names);
    const ofOptions = options
      .filter(({ choices }) => choices.length > 0)
      .map((option) => `      ${option.names.join('|')}) words=${quoted(option.choices.join(' '))} ;;\n`);
    const free = options.filter(({ choices, takesValue }) => takesValue && choices.length === 0);
    const files =
      free.length === 0
        ? ''
        : `      ${free.flatMap((one) => one.names).join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;;\n`;
    return `    ${name})
      words=${quoted([...words, ...names].join(' '))}
      case "$previous" in
${ofOptions.join('')}${files}      esac ;;
`;
  });
  return `# ${NAME} completion for bash: eval "$(${NAME} completion bash)"
_${ident}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words=${quoted(commands.map(({ name }) => name).join(' '))}
  if [ "$COMP_CWORD" -gt 1 ]; then
    words=''
    case "\${COMP_WORDS[1]}" in
${cases.join('')}    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _${ident} ${NAME}`;
}
const ident = NAME.replaceAll('-', '_');

export function zshCompletion(commands: readonly CliCommand[]): string {
  const all = completed(commands);
  const described = all.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}\n`);
  const cases = all.map(({ name, options, words }) => {
    const specs = options.flatMap((option) =>
      option.names.map((flag) => {
        const text = option.help.replaceAll(/[[\]:\\]/g, ' ');
        const value = !option.takesValue
          ? ''
          : option.choices.length > 0
            ? `:value:(${option.choices.join(' ')})`
            : ':value:_files';
        return `      ${quoted(`*${flag}[${text}]${value}`)}`;
      }),
    );
    const argument = words.length > 0 ? `'*:argument:(${words.join(' ')})'` : `'*:argument: '`;
    return `    ${name}) _arguments \\\n${[...specs, `      ${argument}`].join(' \\\n')} ;;\n`;
  });
  return `#compdef ${NAME}
# ${NAME} completion for zsh: source <(${NAME} completion zsh)
_${ident}() {
  local -a commands=(
${described.join('')}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local name=$words[2]
  shift words
  (( CURRENT-- ))
  case $name in
${cases.join('')}  esac
}
compdef _${ident} ${NAME}`;
}

export function fishCompletion(commands: readonly CliCommand[]): string {
  const lines = completed(commands).flatMap(({ name, summary, options, words }) => {
    const seen = `-n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c ${NAME} -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
      ...(words.length > 0 ? [`complete -c ${NAME} ${seen} -f -a ${quoted(words.join(' '))}`] : []),
      ...options.map(({ names, help, choices, takesValue }) => {
        const flags = names.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
        const value = !takesValue ? '' : choices.length > 0 ? ` -x -a ${quoted(choices.join(' '))}` : ' -r';
        return `complete -c ${NAME} ${seen} ${flags.join(' ')}${value} -d ${quoted(help)}`;
      }),
    ];
  });
  return [`# ${NAME} completion for fish: ${NAME} completion fish | source`, ...lines].join('\n');
}
