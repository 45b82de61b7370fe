"""The program that `pgstage conform` wants (docs/worker-protocol.md, "Conformance"), by way of pgstage_worker:

    pgstage conform -- python3 conformance.py
    pgstage conform --batch 4 -- python3 conformance.py
"""
import pgstage_worker as pgstage


def refuse(config):
    if "refuse" in config:
        raise pgstage.Fail(config["refuse"])


def about(task):
    members = {name: getattr(task, name) for name in ("key", "version", "attempt", "input", "inputs")}
    if task.last_progress is not None:
        members["progress"] = task.last_progress
    return members


def one(task):
    payload = task.payload
    do = payload["do"]
    if do == "echo":
        return payload["value"]
    if do == "task":
        return about(task)
    if do == "with":
        return task.config
    if do == "fail":
        raise pgstage.Fail(payload["message"])
    if do == "retry":
        raise pgstage.Retry(payload["message"])
    if do == "sql":
        task.sql(payload["sql"], *payload["params"])
    elif do == "route":
        task.route(payload["stage"])
    elif do == "finish":
        task.finish()
    elif do == "snooze":
        task.snooze(payload["ms"] / 1000)
    elif do == "progress":
        task.progress(payload["fraction"], payload["message"])
    elif do == "log":
        task.log(payload["message"], **payload["fields"])
    elif do == "print":
        print(payload["text"])
    elif do == "wait_cancel":
        while not task.cancelled():
            task.wait_told()
        raise pgstage.Retry("cancelled")
    elif do == "wait_superseded":
        task.wait_told()
        return {"superseded": task.superseded()}
    elif do != "nothing":
        raise pgstage.Fail(f"this worker cannot do '{do}'")
    return None


@pgstage.handler(batch=True)
def conform(tasks):
    for task in tasks:
        if task.payload["do"] == "fail_batch":
            raise pgstage.Retry(task.payload["message"])
    outputs = []
    for task in tasks:
        try:
            outputs.append(one(task))
        except (pgstage.Retry, pgstage.Fail) as error:
            outputs.append(error)
    return outputs


if __name__ == "__main__":
    pgstage.run(init=refuse)
