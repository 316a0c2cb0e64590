import { capabilitiesOf } from '../../../../lib/store/mysql/capabilities.js';

describe('the version of a server', () => {
  it.each([
    ['10.6.0-MariaDB', 'MariaDB'],
    ['10.11.19-MariaDB-0+deb12u1', 'MariaDB'],
    ['12.0.2-MariaDB-ubu2404', 'MariaDB'],
    ['8.0.15', 'MySQL'],
    ['8.4.0-commercial', 'MySQL'],
    ['9.1.0', 'MySQL'],
  ])('%s is enough', (version, product) => {
    expect(capabilitiesOf(version).product).toBe(product);
  });

  it.each(['10.5.26-MariaDB', '5.5.68-MariaDB', '5.7.44-log', '8.0.14', ''])(
    '%j is not, and says what is',
    (version) => {
      expect(() => capabilitiesOf(version)).toThrow(
        expect.objectContaining({
          code: 'UNSUPPORTED_DATABASE',
          hint: expect.stringContaining('MariaDB 10.6.0 or MySQL 8.0.15'),
        }),
      );
    },
  );
});
