// The npm package memcache follows a list of nodes that changes. $DISCOVERY_SERVER has the control socket $CONTROL,
// $SERVER is the second node.
'use strict';
const assert = require('node:assert/strict');
const net = require('node:net');
const { test } = require('node:test');
const { Memcache } = require('memcache');

const DEADLINE_MS = 60_000;
const FIRST = process.env.DISCOVERY_SERVER;
const SECOND = process.env.SERVER;

function ask(request, end) {
  return new Promise((resolve, reject) => {
    let reply = '';
    const socket = net.connect(process.env.CONTROL, () => socket.write(request));
    socket.on('error', reject);
    socket.on('data', (data) => {
      reply += data;
      if (!reply.endsWith(end)) return;
      socket.destroy();
      resolve(reply);
    });
  });
}

// A list of these nodes, with a version above the present one.
async function publish(...addresses) {
  const present = (await ask('config get cluster\r\n', 'END\r\n')).split('\n')[1];
  const version = Math.max(Math.floor(Date.now() / 1000), Number.parseInt(present, 10) + 1 || 0);
  const nodes = addresses.map((address) => `${address.split(':')[0]}|${address.replace(':', '|')}`);
  const value = `${version}\n${nodes.join(' ')}\n`;
  assert.equal(await ask(`config set cluster 0 ${value.length}\r\n${value}\r\n`, '\r\n'), 'STORED\r\n');
}

async function knows(client, ...addresses) {
  const wanted = [...addresses].sort().join(' ');
  for (const end = Date.now() + DEADLINE_MS; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const found = [...client.nodeIds].sort().join(' ');
    if (found === wanted) return;
    assert.ok(Date.now() < end, `${found}, not ${wanted}`);
  }
}

test('memcache follows the list', async () => {
  await publish(FIRST);
  const client = new Memcache({
    nodes: [FIRST],
    autoDiscover: { enabled: true, pollingInterval: 50, configEndpoint: FIRST },
  });
  try {
    await client.connect();
    await knows(client, FIRST);
    await publish(FIRST, SECOND);
    await knows(client, FIRST, SECOND);
    for (let number = 0; number < 64; ++number) {
      assert.equal(await client.set(`memcache${number}`, 'v'), true);
      assert.equal(await client.get(`memcache${number}`), 'v');
    }
    await publish(SECOND);
    await knows(client, SECOND);
  } finally {
    await publish(FIRST);
    await client.disconnect();
  }
});
