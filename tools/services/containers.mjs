import { randomBytes } from 'node:crypto';

/**
 * What the services start their containers with: the classes of testcontainers, with ports that only this machine reaches.
 * Docker publishes a port on every address of the machine, past its firewall. Where the engine is elsewhere (`DOCKER_HOST`,
 * an engine outside of this container), only its other addresses can be reached: there the password has to do.
 */
export async function containers() {
  // Loaded here only: it is large, and useless without an engine.
  const testcontainers = await import('testcontainers');
  const { info } = await testcontainers.getContainerRuntimeClient();
  const here = LOOPBACK.has(info.containerRuntime.host);
  return {
    Wait: testcontainers.Wait,
    GenericContainer: here ? onLoopback(testcontainers) : testcontainers.GenericContainer,
  };
}

/** A new one for each container: it guards against other users of the machine and of its network. */
export function newPassword() {
  return randomBytes(16).toString('hex');
}

export function onLoopback(GenericContainer) {
  return class extends GenericContainer {
    withExposedPorts(...ports) {
      super.withExposedPorts(...ports);
      for (const binding of Object.values(this.hostConfig.PortBindings).flat()) binding.HostIp = '127.0.0.1';
      return this;
    }
  };
}

const LOOPBACK = new Set(['localhost', '127.0.0.1']);
