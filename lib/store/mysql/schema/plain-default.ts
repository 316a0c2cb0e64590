/**
 * Whether a default of our DDL is the one that the server prints. Products and versions print it in different ways: with
 * quotes (MariaDB) or without (MySQL), with charsets (`_utf8mb4'0'`), seconds with fractions, functions by other names
 * (`lcase`, `now`), operators as words. So what calls several functions is compared by its literals, in their order.
 */
export function isSameDefault(wanted: string, found: string): boolean {
  if (/^\(?[a-z]/.test(wanted) && found.includes(`'`) && !found.includes('(')) return false; // a text like the column's name
  const plain = (wanted.match(/\(/g) ?? []).length > 2 ? literals : bare;
  return plain(wanted) === plain(found);
}

export const oneLine = (text: string): string => text.replace(/\s+/g, ' ');

function bare(text: string): string {
  return text
    .toLowerCase()
    .replace(/_\w+(?=\\?')/g, '')
    .replace(/[`'\\()\s]/g, '')
    .replace(/\.0+$/, '');
}

function literals(text: string): string {
  return (text.replaceAll(`\\'`, `'`).match(/'[^']*'|\b\d+\b/g) ?? []).join(' ');
}
