/** `1 key`, `2 keys`; `several` where the plural is not the word with an s. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`;
}
