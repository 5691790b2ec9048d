"""A client that openapi-python-client made from /openapi.json. Arguments: a server's address and a key."""

import importlib
import pkgutil
import sys

import entourage_client
from entourage_client import AuthenticatedClient
from entourage_client.api.events import list_events
from entourage_client.api.feed import get_feed
from entourage_client.api.follows import follow
from entourage_client.api.groups import create_group
from entourage_client.api.is_following import is_following_each
from entourage_client.api.lists import list_followers
from entourage_client.api.posts import create_post
from entourage_client.api.relationships import get_relationships
from entourage_client.api.users import put_user
from entourage_client.models import (
    EdgeEvent,
    FollowBody,
    GroupBody,
    GroupEvent,
    NewPost,
    PostBody,
    PostEvent,
    Problem,
    TargetsBody,
    UserBody,
    UserEvent,
)

# Every module there is, not only those that are used below.
modules = [module.name for module in pkgutil.walk_packages(entourage_client.__path__, "entourage_client.")]
for module in modules:
    importlib.import_module(module)

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)


def same(found, wanted):
    if found != wanted:
        raise SystemExit(f"expected {wanted!r}, got {found!r}")


for user in ("py-ann", "py-ben"):
    same(put_user.sync(user, client=client, body=UserBody(name=user.upper(), private=False)).id, user)

answer = follow.sync_detailed(
    "py-ben", client=client, body=FollowBody(quiet=False), entourage_actor="py-ann", idempotency_key="py-1"
)
same((answer.status_code, answer.parsed.following, answer.parsed.state.value), (201, True, "active"))
page = list_followers.sync("py-ben", client=client, limit=10, entourage_token=answer.headers["entourage-token"])
same(([row.id for row in page.data], page.total, page.has_more), (["py-ann"], 1, False))
results = is_following_each.sync("py-ann", client=client, body=TargetsBody(targets=["py-ben", "nobody"])).results
same(results.to_dict(), {"py-ben": True, "nobody": False})
same([row.following for row in get_relationships.sync("py-ann", client=client, id_query=["py-ben"]).data], [True])
said = {"text": "Hello", "deep": {"a": [1, 2.5, None]}}
post = create_post.sync(client=client, body=NewPost(body=PostBody.from_dict(said)), entourage_actor="py-ben")
same([(row.id, row.author, row.body.to_dict()) for row in get_feed.sync("py-ann", client=client).data], [(post.id, "py-ben", said)])
create_group.sync("py-ann", client=client, body=GroupBody(name="Friends"))

refused = list_followers.sync("py-nobody", client=client)
same((type(refused), refused.code, refused.status), (Problem, "user_not_found", 404))

told, after = [], {}
while True:
    events = list_events.sync(client=client, limit=2, **after)
    told.extend(events.data)
    after = {"after": events.next_cursor}
    if not events.has_more:
        break
mine = [event for event in told if "py-" in str(event.to_dict())]
same(
    [(type(event), event.type_.value) for event in mine],
    [
        (UserEvent, "user.created"),
        (UserEvent, "user.created"),
        (EdgeEvent, "follow.created"),
        (PostEvent, "post.created"),
        (GroupEvent, "group.created"),
    ],
)
same((mine[0].user.id, mine[2].follower, mine[2].target, mine[3].body.to_dict()), ("py-ann", "py-ann", "py-ben", said))
print(f"openapi-python-client: fine, {len(modules)} modules")
