import type { IncomingMessage, Server } from 'node:http';
import { WebSocketServer, type WebSocket } from 'ws';

type Json = Record<string, unknown>;
export interface WireBook {
  yes_dollars: [string, string][] | null;
  no_dollars: [string, string][] | null;
}

export interface StreamFrame {
  type: string;
  sending_ts_ms?: number | undefined;
  id?: number;
  sid?: number;
  seq?: number;
  msg?: Json | undefined;
}

interface Subscription {
  channel: string;
  tickers: Set<string>;
  seq: number;
  usesYesPrice: boolean;
}

interface Client {
  socket: WebSocket;
  subscriptions: Map<number, Subscription>;
}

/** The venue's WebSocket: subscriptions, snapshots and deltas as documented in October 2026, with injectable faults. */
export interface FakeStream {
  /** Intercepts frames: call `send` with the frame or another one, once, twice, later or never. */
  fault: ((frame: StreamFrame, send: (frame: StreamFrame) => void) => void) | undefined;
  commands: { cmd: string; params: Json }[];
  /** Returns the error with which to reject a command; undefined to accept it. */
  refuse: ((command: { cmd: string; params: Json }) => { code: number; msg: string } | undefined) | undefined;
  handshakes: IncomingMessage[];
  /** Sending time of frames in milliseconds since the epoch; undefined to omit it, as before October 2026. */
  sendingTime: () => number | undefined;
  readonly connections: number;
  /**
   * Changes a book and notifies its subscribers. `delta` is in contracts; `price` is the given side's price in dollars.
   */
  change(ticker: string, side: 'yes' | 'no', price: string, delta: string): void;
  /** Sends a frame without changing a book. */
  say(frame: StreamFrame, isNumbered?: boolean): void;
  /** Sends a message to all subscribers of the market lifecycle channel. */
  announce(msg: Json): void;
  /**
   * Sends a message to all subscribers of a private channel or of a market's trades. Such messages have no sequence
   * number.
   */
  tell(channel: 'fill' | 'user_orders' | 'trade', msg: Json): void;
  /** Drops a subscription as if the client had read its frames too slowly. */
  overflow(): void;
  restartSequences(): void;
  /** Keeps connections open, but neither sends nor reads. */
  goSilent(): void;
  disconnect(): void;
  sids(): number[];
  stop(): void;
}

export function startFakeStream(
  server: Server,
  books: Map<string, WireBook>,
  isMember: (req: IncomingMessage) => boolean,
): FakeStream {
  const clients = new Set<Client>();
  const wss = new WebSocketServer({ noServer: true });
  const silent: Client[] = [];
  let lastSid = 0;

  server.on('upgrade', (req, socket, head) => {
    stream.handshakes.push(req);
    if (req.url !== '/trade-api/ws/v2' || !isMember(req)) {
      socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n');
      return;
    }
    wss.handleUpgrade(req, socket, head, (ws) => {
      const client: Client = { socket: ws, subscriptions: new Map() };
      clients.add(client);
      ws.on('close', () => clients.delete(client));
      ws.on('error', () => undefined);
      ws.on('message', (data) => take(client, JSON.parse((data as Buffer).toString()) as Command));
    });
  });

  interface Command {
    id: number;
    cmd: string;
    params: Json & { sid?: number; sids?: number[]; market_tickers?: string[]; action?: string };
  }

  function transmit(client: Client, frame: StreamFrame): void {
    const send = (sent: StreamFrame) => {
      if (client.socket.readyState === client.socket.OPEN)
        client.socket.send(JSON.stringify({ sending_ts_ms: stream.sendingTime(), ...sent }));
    };
    if (stream.fault) stream.fault(frame, send);
    else send(frame);
  }

  /** Sends a frame with the subscription's next sequence number. */
  function number(client: Client, sid: number, frame: StreamFrame): void {
    const subscription = client.subscriptions.get(sid)!;
    transmit(client, { ...frame, sid, seq: ++subscription.seq });
  }

  function take(client: Client, { id, cmd, params }: Command): void {
    stream.commands.push({ cmd, params });
    const refusal = stream.refuse?.({ cmd, params });
    if (refusal) return transmit(client, { id, type: 'error', msg: refusal });
    if (cmd === 'subscribe') {
      for (const channel of params.channels as string[]) {
        const sid = ++lastSid;
        const tickers = params.market_tickers ?? [];
        client.subscriptions.set(sid, {
          channel,
          tickers: new Set(tickers),
          seq: 0,
          usesYesPrice: params.use_yes_price === true,
        });
        transmit(client, { id, type: 'subscribed', msg: { channel, sid } });
        if (channel === 'orderbook_delta') for (const ticker of tickers) snapshot(client, sid, ticker);
      }
      return;
    }
    if (cmd === 'unsubscribe') {
      for (const sid of params.sids ?? []) {
        if (client.subscriptions.has(sid)) number(client, sid, { id, type: 'unsubscribed' });
        client.subscriptions.delete(sid);
      }
      return;
    }
    const { sid = 0, market_tickers: tickers = [], action } = params;
    const subscription = client.subscriptions.get(sid);
    if (!subscription)
      return transmit(client, { id, type: 'error', msg: { code: 12, msg: 'Unknown subscription ID' } });
    if (action === 'get_snapshot') {
      for (const ticker of tickers) snapshot(client, sid, ticker, id);
      return;
    }
    for (const ticker of tickers)
      if (action === 'add_markets') subscription.tickers.add(ticker);
      else subscription.tickers.delete(ticker);
    number(client, sid, { id, type: 'ok', msg: { market_tickers: [...subscription.tickers] } });
    if (action === 'add_markets') for (const ticker of tickers) snapshot(client, sid, ticker);
  }

  const priceFor = (subscription: Subscription, side: string, price: string): string =>
    side === 'no' && subscription.usesYesPrice ? (1 - Number(price)).toFixed(4) : price;

  function snapshot(client: Client, sid: number, ticker: string, id?: number): void {
    const subscription = client.subscriptions.get(sid)!;
    const book = books.get(ticker);
    const levels = (side: 'yes' | 'no') =>
      book?.[`${side}_dollars`]?.map(([price, count]) => [priceFor(subscription, side, price), count]);
    const msg = {
      market_ticker: ticker,
      market_id: `id-${ticker}`,
      yes_dollars_fp: levels('yes'),
      no_dollars_fp: levels('no'),
    };
    number(client, sid, { ...(id === undefined ? {} : { id }), type: 'orderbook_snapshot', msg });
  }

  const stream: FakeStream = {
    fault: undefined,
    commands: [],
    refuse: undefined,
    handshakes: [],
    sendingTime: Date.now,
    get connections() {
      return clients.size;
    },
    change(ticker, side, price, delta) {
      changeBook(books, ticker, side, price, delta);
      for (const client of clients)
        for (const [sid, subscription] of client.subscriptions)
          if (subscription.tickers.has(ticker))
            number(client, sid, {
              type: 'orderbook_delta',
              msg: {
                market_ticker: ticker,
                market_id: `id-${ticker}`,
                price_dollars: priceFor(subscription, side, price),
                delta_fp: delta,
                side,
              },
            });
    },
    say(frame, isNumbered = true) {
      for (const client of clients)
        if (isNumbered) number(client, frame.sid!, frame);
        else transmit(client, frame);
    },
    announce(msg) {
      for (const client of clients)
        for (const [sid, { channel }] of client.subscriptions)
          if (channel === 'market_lifecycle_v2') number(client, sid, { type: channel, msg });
    },
    tell(channel, msg) {
      const type = channel === 'user_orders' ? 'user_order' : channel;
      for (const client of clients)
        for (const [sid, { channel: of, tickers }] of client.subscriptions)
          if (of === channel && (channel !== 'trade' || tickers.has(String(msg.market_ticker))))
            transmit(client, { type, sid, msg });
    },
    overflow() {
      for (const client of clients)
        for (const [sid, { channel }] of client.subscriptions)
          if (channel === 'orderbook_delta') {
            number(client, sid, { type: 'error', msg: { code: 25, msg: 'Subscription buffer overflow' } });
            client.subscriptions.delete(sid);
          }
    },
    restartSequences() {
      for (const { subscriptions } of clients) for (const one of subscriptions.values()) one.seq = 0;
    },
    goSilent() {
      for (const client of clients) {
        client.socket.pause();
        clients.delete(client);
        silent.push(client);
      }
    },
    disconnect() {
      for (const { socket } of clients) socket.terminate();
    },
    sids: () =>
      [...clients].flatMap(({ subscriptions }) =>
        [...subscriptions].flatMap(([sid, { channel }]) => (channel === 'orderbook_delta' ? [sid] : [])),
      ),
    stop() {
      wss.close();
      for (const { socket } of [...clients, ...silent]) socket.terminate();
    },
  };
  return stream;
}

/** Adds or removes bids at a price. Levels are in ascending order. */
export function changeBook(
  books: Map<string, WireBook>,
  ticker: string,
  side: 'yes' | 'no',
  price: string,
  delta: string,
): void {
  const book = books.get(ticker) ?? { yes_dollars: [], no_dollars: [] };
  const levels = new Map(book[`${side}_dollars`] ?? []);
  const left = Number(levels.get(price) ?? 0) + Number(delta);
  if (left <= 0) levels.delete(price);
  else levels.set(price, left.toFixed(2));
  const sorted = [...levels].sort((a, b) => Number(a[0]) - Number(b[0]));
  books.set(ticker, { ...book, [`${side}_dollars`]: sorted });
}
