// A client that openapi-typescript made from /openapi.json, used by openapi-fetch. Arguments: a server's address and a key.
// It is compiled with every check that TypeScript has, so that what the types do not allow fails before it runs.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[]; exit(code: number): never };

const [address, key] = process.argv.slice(2);
if (address === undefined || key === undefined) throw new Error("an address and a key are needed");
// Lists come as NDJSON, too, to who asks for it.
type Media = "application/json" | "application/problem+json";
const api = createClient<paths, Media>({ baseUrl: address, headers: { Authorization: `Bearer ${key}` } });

function same(found: unknown, wanted: unknown): void {
    const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (one !== other) throw new Error(`expected ${other}, got ${one}`);
}

function must<T>(answer: { data?: T; error?: unknown }): T {
    if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
    return answer.data;
}

/// Every kind of event, told apart by its type.
function told(event: components["schemas"]["Event"]): string {
    switch (event.type) {
        case "user.created":
        case "user.updated":
            return `${event.type} ${event.user?.id}`;
        case "follow.created":
        case "follow.removed":
            return `${event.type} ${event.follower} ${event.target} ${event.quiet}`;
        case "group.created":
            return `${event.type} ${event.owner}`;
        case "post.created":
            return `${event.type} ${event.author} ${JSON.stringify(event.body)}`;
        default:
            return event.type;
    }
}

async function run(): Promise<void> {
    const user = (id: string) => ({ params: { path: { id } } });
    for (const id of ["ts-ann", "ts-ben"]) {
        const body: components["schemas"]["UserBody"] = { name: id.toUpperCase(), private: false };
        same(must(await api.PUT("/api/v1/users/{id}", { ...user(id), body })).id, id);
    }
    const acting = { header: { "Entourage-Actor": "ts-ann", "Idempotency-Key": "ts-1" } };
    const follow = () =>
        api.POST("/api/v1/users/{id}/follow", { params: { path: { id: "ts-ben" }, ...acting }, body: { quiet: false } });
    const first = await follow();
    const followed = must(first);
    same([followed.following, followed.state, first.response.status], [true, "active", 201]);
    same((await follow()).response.headers.get("idempotent-replayed"), "true");
    const token = first.response.headers.get("entourage-token");
    if (token === null) throw new Error("no token");
    const reading = { path: { id: "ts-ben" }, query: { limit: 10 }, header: { "Entourage-Token": token } };
    const page = must(await api.GET("/api/v1/users/{id}/followers", { params: reading }));
    same([page.data.map((row) => row.id), page.total, page.has_more], [["ts-ann"], 1, false]);
    const many = { params: { path: { id: "ts-ann" } }, body: { targets: ["ts-ben", "nobody"] } };
    const checked = must(await api.POST("/api/v1/users/{id}/is-following", many));
    same([checked.results["ts-ben"], checked.results["nobody"]], [true, false]);
    const asked = { params: { path: { id: "ts-ann" }, query: { id: ["ts-ben"] } } };
    const relations = must(await api.GET("/api/v1/users/{id}/relationships", asked));
    same(relations.data.map((relation) => relation.following), [true]);
    const writing = { params: { header: { "Entourage-Actor": "ts-ben" } }, body: { body: { text: "Hello" } } };
    const post = must(await api.POST("/api/v1/posts", writing));
    const feed = must(await api.GET("/api/v1/users/{id}/feed", user("ts-ann")));
    same(feed.data.map((row) => [row.id, row.author]), [[post.id, "ts-ben"]]);
    const group = { params: { path: { id: "ts-ann" } }, body: { name: "Friends" } };
    same(must(await api.POST("/api/v1/users/{id}/groups", group)).name, "Friends");

    const refused = await api.GET("/api/v1/users/{id}/followers", user("ts-nobody"));
    same([refused.error?.code, refused.error?.status], ["user_not_found", 404]);

    const events: string[] = [];
    let after: string | undefined;
    for (;;) {
        const query = after === undefined ? { limit: 2 } : { limit: 2, after };
        const part = must(await api.GET("/api/v1/events", { params: { query } }));
        events.push(...part.data.map(told));
        after = part.next_cursor ?? undefined;
        if (!part.has_more) break;
    }
    for (const wanted of [
        "user.created ts-ann",
        "follow.created ts-ann ts-ben false",
        'post.created ts-ben {"text":"Hello"}',
        "group.created ts-ann",
    ]) {
        if (!events.includes(wanted)) throw new Error(`${wanted} is not in ${events.join("\n")}`);
    }
}

run().then(
    () => console.log("openapi-typescript: fine"),
    (error: unknown) => {
        console.error(error);
        process.exit(1);
    },
);
