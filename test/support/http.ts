import { once } from 'node:events';
import { Agent, request } from 'node:http';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';

export const HTTP_SERVERS = ['express', 'fastify'] as const;
export type HttpServer = (typeof HTTP_SERVERS)[number];

/** What Nest serves HTTP with. */
export function httpAdapter(server: HttpServer): AbstractHttpAdapter {
  return server === 'express' ? new ExpressAdapter() : new FastifyAdapter();
}

/** Sends one POST after the other on each of its connections, until they are closed. */
export class BusyClient {
  private readonly agent = new Agent({ keepAlive: true });
  private readonly work: Promise<unknown>;
  /** How often each status was answered. */
  readonly answers = new Map<number, number>();
  private on = true;

  constructor(
    private readonly port: number,
    private readonly path: string,
    connections: number,
  ) {
    this.work = Promise.all(Array.from({ length: connections }, () => this.sendAll()));
  }

  get accepted(): number {
    return this.answers.get(201) ?? 0;
  }

  private async sendAll(): Promise<void> {
    try {
      while (this.on) await this.send();
    } catch {
      // The server closed the connection.
    }
  }
  private async send(): Promise<void> {
    const { port, path, agent } = this;
    const sent = request({ host: '127.0.0.1', port, path, method: 'POST', agent });
    sent.end();
    const [answer] = await once(sent, 'response');
    answer.resume();
    await once(answer, 'end');
    this.answers.set(answer.statusCode, (this.answers.get(answer.statusCode) ?? 0) + 1);
  }

  async stop(): Promise<void> {
    this.on = false;
    await this.work;
    this.agent.destroy();
  }
}
