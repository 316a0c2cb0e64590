import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';

/**
 * One report per entry point of `exports`, in etc/. A difference to the committed report is a failure: a change of the
 * public surface is seen in review or not made.
 */
export function checkApi(root, manifest, update) {
  const reports = join(root, 'etc');
  mkdirSync(reports, { recursive: true });
  const entries = Object.entries(manifest.exports).filter(([, target]) => typeof target === 'object');
  const names = entries.map(([path]) => reportName(manifest.name, path));
  try {
    const results = entries.map(([, target], index) =>
      extract(root, join(root, target.import.types), names[index], reports, update, manifest.name),
    );
    if (update) for (const name of names) withSpaces(join(reports, `${name}.api.md`));
    return results.every(Boolean) && !hasOrphans(reports, names, update);
  } finally {
    rmSync(join(reports, 'tmp'), { recursive: true, force: true });
  }
}

/** The declarations are packed with tabs, and the extractor puts its own spaces before them. */
function withSpaces(file) {
  const spaced = (indent) => indent.replaceAll(/[^\t]/g, '').replaceAll('\t', '    ');
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/^ *\t[ \t]*/gm, spaced));
}

function reportName(name, path) {
  return path === '.' ? name : `${name}-${path.slice(2).replaceAll('/', '-')}`;
}

function extract(root, entry, name, reports, update, manifestName) {
  if (!existsSync(entry)) {
    console.error(`${name}: there is no ${entry.slice(root.length + 1)}`);
    return false;
  }
  const config = ExtractorConfig.prepare({
    packageJsonFullPath: join(root, 'package.json'),
    configObjectFullPath: undefined,
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: entry,
      compiler: { overrideTsconfig: COMPILER },
      newlineKind: 'lf',
      apiReport: {
        enabled: true,
        reportFileName: name,
        reportFolder: reports,
        reportTempFolder: join(reports, 'tmp'),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: 'none' } },
        extractorMessageReporting: {
          default: { logLevel: 'none' },
          // What the root shows but does not export. A subpath shows types of the root: that is as it should be.
          'ae-forgotten-export': { logLevel: 'none', addToApiReportFile: name === manifestName },
        },
        tsdocMessageReporting: { default: { logLevel: 'none' } },
      },
    },
  });
  const result = Extractor.invoke(config, {
    localBuild: update,
    messageCallback: (message) => {
      message.handled = message.category === 'console';
    },
  });
  if (result.apiReportChanged && !update) {
    const file = `etc/${name}.api.md`;
    spawnSync('git', ['--no-pager', 'diff', '--no-index', '-U1', file, `etc/tmp/${name}.api.md`], {
      cwd: root,
      stdio: 'inherit',
    });
    console.error(`${name}: the public API differs from ${file}. If that is meant: npm run api:update`);
  }
  return update || !result.apiReportChanged;
}

/** The extractor brings its own TypeScript; only resolution matters to it. */
const COMPILER = {
  compilerOptions: {
    target: 'ES2023',
    lib: ['ES2023'],
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    strict: true,
    skipLibCheck: true,
    experimentalDecorators: true,
    types: ['node'],
  },
};

function hasOrphans(reports, names, update) {
  const orphans = readdirSync(reports).filter((file) => file.endsWith('.api.md') && !names.includes(file.slice(0, -7)));
  for (const file of orphans) {
    if (update) rmSync(join(reports, file));
    else console.error(`etc/${file} belongs to no entry point`);
  }
  return orphans.length > 0 && !update;
}
