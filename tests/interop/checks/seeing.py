"""What an agent saw, or why it saw nothing."""

import anyio

# For each check.
PATIENCE = 60


async def see(check, *of):
    try:
        with anyio.fail_after(PATIENCE):
            return await check(*of)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
