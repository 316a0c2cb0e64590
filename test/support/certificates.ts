import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}
export interface Certificates {
  /** Who signed all of them but `stranger` and `selfSigned`. */
  readonly ca: string;
  /** Of localhost and 127.0.0.1, like the others. */
  readonly good: Certificate;
  readonly expired: Certificate;
  readonly otherHost: Certificate;
  /** Signed by an authority that nobody was told of. */
  readonly stranger: Certificate;
  readonly selfSigned: Certificate;
}

/** With the code that Node gives to a client that trusts `ca`. */
export const REFUSED_CERTIFICATES = [
  { what: 'of an authority that is not known', presented: 'stranger', code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' },
  { what: 'that it signed itself', presented: 'selfSigned', code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
  { what: 'that expired', presented: 'expired', code: 'CERT_HAS_EXPIRED' },
  { what: 'of another host', presented: 'otherHost', code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
] as const;

const HERE = 'subjectAltName=DNS:localhost,IP:127.0.0.1';
const EXPIRED = ['-startdate', '20200101000000Z', '-enddate', '20200102000000Z'];
/** Of a command that is independent of the machine's own configuration. */
const CONFIG = `[req]
distinguished_name = name
[ca]
default_ca = authority
[authority]
database = index
new_certs_dir = .
default_md = sha256
default_days = 2
unique_subject = no
rand_serial = yes
policy = name
copy_extensions = copy
[name]
commonName = supplied
`;

/** Made with the command `openssl`, as Node makes none; without it whoever asks fails. */
export async function makeCertificates(): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'outbox-certificates-'));
  try {
    await Promise.all([writeFile(join(folder, 'config'), CONFIG), writeFile(join(folder, 'index'), '')]);
    const [ca] = [await selfSign(folder, 'ca', 'CA:TRUE'), await selfSign(folder, 'unknown-ca', 'CA:TRUE')];
    return {
      ca: ca.cert,
      good: await sign(folder, 'good', 'ca'),
      expired: await sign(folder, 'expired', 'ca', HERE, EXPIRED),
      otherHost: await sign(folder, 'other-host', 'ca', 'subjectAltName=DNS:elsewhere.example'),
      stranger: await sign(folder, 'stranger', 'unknown-ca'),
      selfSigned: await selfSign(folder, 'self-signed', 'CA:FALSE'),
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function selfSign(folder: string, name: string, constraints: string): Promise<Certificate> {
  const extensions = ['-addext', `basicConstraints=critical,${constraints}`, '-addext', HERE];
  await openssl(folder, ['req', '-x509', '-days', '2', ...newKey(name), '-out', `${name}.pem`, ...extensions]);
  return read(folder, name);
}

async function sign(
  folder: string,
  name: string,
  authority: string,
  hosts = HERE,
  validity: readonly string[] = [],
): Promise<Certificate> {
  await openssl(folder, ['req', '-new', ...newKey(name), '-out', `${name}.csr`, '-addext', hosts]);
  const by = ['-cert', `${authority}.pem`, '-keyfile', `${authority}.key`];
  const files = ['-in', `${name}.csr`, '-out', `${name}.pem`, '-notext'];
  await openssl(folder, ['ca', '-batch', '-config', 'config', ...by, ...files, ...validity]);
  return read(folder, name);
}

function newKey(name: string): string[] {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${name}.key`];
  return ['-config', 'config', '-subj', `/CN=outbox test ${name}`, ...key];
}

async function read(folder: string, name: string): Promise<Certificate> {
  const [cert, key] = await Promise.all(
    ['pem', 'key'].map((kind) => readFile(join(folder, `${name}.${kind}`), 'utf8')),
  );
  return { cert: cert!, key: key! };
}

async function openssl(cwd: string, args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)('openssl', args, { cwd });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new Error(
      'There is no command `openssl` on this machine: the tests of TLS make their certificates with it.',
      {
        cause: error,
      },
    );
  }
}
