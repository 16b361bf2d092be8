// memjs, the Node client of the binary protocol and SASL, against the servers that $SERVER and $SASL_SERVER name.
'use strict';
const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const net = require('node:net');
const { afterEach, beforeEach, describe, test } = require('node:test');
const memjs = require('memjs');

const USER = 'tester';
const PASSWORD = 'secret';
const DEADLINE_MS = 20_000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function eventually(what, done) {
  for (const end = Date.now() + DEADLINE_MS; !(await done()); await pause(20)) {
    assert.ok(Date.now() < end, `not in ${DEADLINE_MS} ms: ${what}`);
  }
}

const silent = { log() {} };
const create = (address, options = {}) => memjs.Client.create(address, { timeout: 10, logger: silent, ...options });
const text = async (client, key) => {
  const { value } = await client.get(key);
  return value === null ? null : value.toString();
};

const WAYS = {
  open: () => create(process.env.SERVER),
  sasl: () => create(process.env.SASL_SERVER, { username: USER, password: PASSWORD }),
};

for (const [way, connect] of Object.entries(WAYS)) {
  describe(way, () => {
    let client;
    beforeEach(async () => {
      client = connect();
      await client.flush();
    });
    afterEach(() => client.close());

    test('set, get, delete', async () => {
      assert.equal(await client.set('key', 'value', { expires: 100 }), true);
      assert.equal(await text(client, 'key'), 'value');
      assert.equal(await client.delete('key'), true);
      assert.equal(await client.delete('key'), false);
      assert.equal(await text(client, 'key'), null);
    });

    test('values of any bytes', async () => {
      const all = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
      for (const value of [Buffer.alloc(0), all, Buffer.from('\r\nEND\r\n')]) {
        await client.set('bytes', value);
        assert.deepEqual((await client.get('bytes')).value, value);
      }
    });

    test('add, replace, append, prepend', async () => {
      assert.equal(await client.replace('key', '1'), false);
      assert.equal(await client.add('key', '2'), true);
      assert.equal(await client.add('key', '3'), false);
      assert.equal(await client.replace('key', '4'), true);
      assert.equal(await client.append('key', '5'), true);
      assert.equal(await client.prepend('key', '6'), true);
      assert.equal(await text(client, 'key'), '456'); // memjs 1.3.2 sends append's opcode for prepend
      await assert.rejects(client.append('absent', 'x'), /Item not stored/);
    });

    test('increment and decrement', async () => {
      assert.equal((await client.increment('n', 5, { initial: 10 })).value, 10);
      assert.equal((await client.increment('n', 5, {})).value, 15);
      assert.equal((await client.decrement('n', 3, {})).value, 12);
      assert.equal((await client.decrement('n', 100, {})).value, 0);
    });

    test('touch and expiry', async () => {
      await client.set('short', 'v', { expires: 1 });
      await client.set('touched', 'v', { expires: 1 });
      assert.equal(await client.touch('touched', 100), true);
      assert.equal(await client.touch('absent', 100), false);
      await eventually('expired', async () => (await text(client, 'short')) === null);
      assert.equal(await text(client, 'touched'), 'v');
    });

    test('a thousand keys at once', async () => {
      const keys = Array.from({ length: 1000 }, (_, n) => `many${n}`);
      await Promise.all(keys.map((key) => client.set(key, `value of ${key}`)));
      const values = await Promise.all(keys.map((key) => text(client, key)));
      assert.deepEqual(values, keys.map((key) => `value of ${key}`));
    });

    test('large values', async () => {
      const value = Buffer.alloc(1_000_000, 'abc');
      await client.set('large', value);
      assert.ok((await client.get('large')).value.equals(value));
      await assert.rejects(async () => assert.equal(await client.set('large', Buffer.alloc(2_000_000)), true));
      await client.set('after', 'v');
      assert.equal(await text(client, 'after'), 'v');
    });

    test('statistics and flush', async () => {
      await client.set('key', 'v');
      const stats = await new Promise((resolve, reject) => {
        client.stats((error, _server, values) => (error ? reject(error) : resolve(values)));
      });
      assert.ok(Number(stats.curr_items) >= 1);
      await client.flush();
      assert.equal(await text(client, 'key'), null);
    });
  });
}

for (const [name, options] of Object.entries({
  'a wrong password': { username: USER, password: 'wrong' },
  'an unknown user': { username: 'nobody', password: PASSWORD },
  'no password': {},
})) {
  test(`refused with ${name}`, async () => {
    const client = create(process.env.SASL_SERVER, { retries: 1, timeout: 2, ...options });
    await assert.rejects(async () => assert.equal(await client.set('key', 'v'), true));
    client.close();
  });
}

test('comes back after the server', async () => {
  const port = await new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const found = probe.address().port;
      probe.close(() => resolve(found));
    });
  });
  const listens = () =>
    new Promise((resolve) => {
      const socket = net.connect(port, '127.0.0.1', () => resolve(socket.destroy() && true));
      socket.on('error', () => resolve(false));
    });
  const start = async () => {
    const [program, ...words] = process.env.SERVER_COMMAND.split(' ');
    const child = spawn(program, [...words, '-p', String(port)], { stdio: 'ignore' });
    await eventually('the server listens', listens);
    return child;
  };
  const kill = (child) =>
    new Promise((resolve) => {
      child.on('exit', resolve);
      child.kill('SIGKILL');
    });

  let child = await start();
  const client = create(`127.0.0.1:${port}`, { retries: 1, timeout: 1, failoverTime: 1 });
  await client.set('key', 'v');
  await kill(child);
  await assert.rejects(client.set('key', 'v'));
  child = await start();
  try {
    await eventually('the client works again', () => client.set('key', 'v').catch(() => false));
    assert.equal(await text(client, 'key'), 'v');
  } finally {
    client.close();
    await kill(child);
  }
});
