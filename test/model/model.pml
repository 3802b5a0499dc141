/* A model of how agents share a row, for Spin: see README.md. `make model` checks it, and test/model/check NAME shows
 * the steps of a run that goes wrong.
 *
 * state.pml has what there is; store.pml what the statements do; agent.pml, task.pml and world.pml what happens. Rules
 * are those of docs/architecture.md.
 */
#include "state.pml"
#include "store.pml"
#include "agent.pml"
#include "task.pml"
#include "world.pml"

init {
  atomic {
    join(0, 1);
    if
    :: JOINS -> mode[1] = UNBORN
    :: else -> join(1, 1)
    fi;
    run agent(0); run agent(1); run task(0); run task(1); run world()
  }
}

#ifdef LIVENESS
/* Whatever happens, in the end the row has ended, or its task keeps reporting progress. */
ltl CommittedEnds { [] <> (over || fresh) }
#endif
