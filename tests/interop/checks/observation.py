"""The observation of an agent, or the reason of its failure."""

import anyio

# Time limit of a check.
TIMEOUT = 60


async def observe(check, *of):
    try:
        with anyio.fail_after(TIMEOUT):
            return await check(*of)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
