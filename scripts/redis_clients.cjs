// node-redis against a server: default handshake, both protocols. Arguments: two ports and a key.
const assert = require("node:assert");
const { createClient } = require("redis");

const [open, guarded, key] = process.argv.slice(2);

async function run(options, me) {
    const client = createClient({ ...options, disableOfflineQueue: true });
    client.on("error", (error) => {
        throw error;
    });
    await client.connect();
    const list = `following:${me}`;
    assert.equal(await client.ping(), "PONG");
    assert.equal(await client.sAdd(list, ["b", "c", "d"]), 3);
    assert.equal(await client.sIsMember(list, "b"), 1);
    assert.deepEqual(await client.smIsMember(list, ["b", "x"]), [1, 0]);
    assert.deepEqual([...(await client.sMembers(list))].sort(), ["b", "c", "d"]);
    const scanned = [];
    for await (const ids of client.sScanIterator(list, { COUNT: 1 })) {
        scanned.push(...(Array.isArray(ids) ? ids : [ids]));
    }
    assert.deepEqual(scanned.sort(), ["b", "c", "d"]);
    assert.equal(await client.sCard(list), 3);
    assert.equal(await client.get(`following_count:${me}`), "3");
    assert.deepEqual(await client.mGet([`is_following:${me}:b`, "follower_count:nobody"]), ["1", null]);
    assert.ok((await client.zScore(list, "b")) > 1e12);
    assert.equal((await client.zRangeWithScores(list, 0, -1, { REV: true })).length, 3);
    // Commands of one tick go out together.
    assert.deepEqual(await Promise.all([client.sIsMember(list, "c"), client.sRem(list, "c"), client.sIsMember(list, "c")]), [
        1, 1, 0,
    ]);
    assert.deepEqual(await client.multi().sIsMember(list, "b").sCard(list).exec(), [1, 2]);
    await assert.rejects(client.sendCommand(["EG.FOLLOW", me, me]), /^(Error|ErrorReply|SimpleError): SELFFOLLOW /);
    await assert.rejects(client.get(list), /WRONGTYPE/);
    await client.close();
}

(async () => {
    for (const RESP of [2, 3]) {
        await run({ RESP, socket: { port: open } }, `node${RESP}`);
        await run({ RESP, socket: { port: guarded }, password: key, name: "tests" }, `node${RESP}`);
    }
    console.log("node-redis: fine");
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
